// The parts that pages of the course share: sliders, and a pass drawn as a row of proposals.

import { button, make, put } from "../shared/dom.js";
import { columnsOf } from "../step/lane.js";

// A labelled slider; `act` gets its value, at once and on every change. The reading stands beside the label.
export function slider(label, [min, max, step], value, read, act) {
  const reading = make("output", "lens-learn-reading");
  const input = make("input", "", "", { type: "range", min, max, step, value });
  const show = () => {
    reading.textContent = read(Number(input.value));
    input.setAttribute("aria-valuetext", reading.textContent);
    act(Number(input.value));
  };
  input.addEventListener("input", show);
  show();
  return put(make("label", "lens-learn-slider"), put(make("span", "", `${label} `), reading), input);
}

// Text already written, as Compare shows it: a band for each of the first `count` passes that write.
export function written(lane, count, className = "") {
  const bands = lane.writing.slice(0, count).map((pass) => lane.band(pass));
  return put(make("div", `lens-learn-text ${className}`), ...bands);
}

const READ = { clean: "real text", mask: "a mask", draft: "a draft", random: "a guess" };

// What the position read of which this proposal came: a draft with its text, and whether it was right.
function read(lane, pass, place, source) {
  const { token = null } = columnsOf(pass).columns.find(({ proposal }) => proposal === place) ?? {};
  if (source !== "draft" || token === null) return READ[source];
  return `draft “${lane.label(token)}” ${pass.trace.reasons[place] === "wrong draft" ? "×" : "✓"}`;
}

// The proposals of a pass of this lane over what each position read. `accepted` of them are taken; `shown` false hides
// the answers; with `kept`, what masks proposed is not thrown away.
export function proposals(lane, { row: pass }, options = {}) {
  const { accepted = pass.accepted, threshold = null, shown = true, kept = false } = options;
  const row = make("ol", "lens-learn-window");
  pass.proposals.forEach(({ token_id: token, score, source }, place) => {
    const taken = shown && place < accepted;
    const fate = !shown ? "open" : taken ? "taken" : kept && source === "mask" ? "kept" : "left";
    const cell = make("li", `lens-learn-cell ${source} ${fate}`);
    cell.append(make("span", "lens-learn-proposal", shown ? lane.label(token) : "?"));
    const bar = make("span", "lens-learn-bar", "", { style: `height: ${shown ? 100 * Math.min(1, score) : 0}%` });
    const scale = put(make("span", "lens-learn-scale"), bar);
    if (threshold !== null) scale.append(make("span", "lens-learn-mark", "", { style: `bottom: ${100 * threshold}%` }));
    const below = [shown ? score.toFixed(2) : "", read(lane, pass, place, source)];
    row.append(put(cell, scale, ...below.map((words) => make("span", "", words))));
  });
  return row;
}

// Previous and next through the passes of a lane; `draw` gets the number, at once too. Returns [controls, next button].
export function walk(count, draw, begin = 0) {
  let number = begin;
  const go = (to) => {
    number = Math.min(count - 1, Math.max(0, to));
    where.textContent = `pass ${number + 1} of ${count}`;
    before.disabled = number === 0;
    next.disabled = number === count - 1;
    draw(number);
  };
  const before = button("lens-tool", "Previous pass", () => go(number - 1));
  const next = button("lens-tool", "Next pass", () => go(number + 1));
  const where = make("span");
  go(begin);
  return [put(make("div", "lens-row"), before, next, where), next];
}
