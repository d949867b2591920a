// Under load, live: a slider of visitors per second, and two lanes whose queue and speed are drawn as they change.

import { button, clear, make, put, shape, status } from "../shared/dom.js";
import { OVER, RunView } from "../shared/feed.js";

const LANES = { ar: "AR", mars: "MARS, adapting" };
const PANELS = { waiting: "Visitors waiting", speed: "Tokens per second, all together" };
const WIDTH = 480;
const HEIGHT = 130;
const LEFT = 34;
const BOTTOM = 20;
const SECONDS = 60;

// The points of a line through {clock, value}, within the panel; `top` is the value at its upper edge.
export function pointsOf(samples, name, top) {
  const x = (clock) => LEFT + (Math.min(clock, SECONDS) / SECONDS) * (WIDTH - LEFT - 4);
  const y = (value) => HEIGHT - BOTTOM - (Math.min(value, top) / top) * (HEIGHT - BOTTOM - 8);
  return samples.map((sample) => `${x(sample.clock).toFixed(1)},${y(sample[name]).toFixed(1)}`).join(" ");
}

// A round number that is at least the largest value.
export function topOf(samples, name) {
  const most = Math.max(1, ...samples.map((sample) => sample[name]));
  const step = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((times) => times * step).find((top) => top >= most);
}

// One line about a lane; `spends` says what its rows had in the last pass.
export function wordsOf(lane, spends) {
  const first = lane.first === null ? "–" : `${lane.first.toFixed(2)} s`;
  const away = lane.refused ? ` · ${lane.refused} turned away` : "";
  const last = spends && lane.layouts ? ` · last pass: ${lane.layouts.replace("none", "without drafts").replace("copy", "drafts without masks")}` : "";
  return (
    `${lane.waiting} waiting, ${lane.writing} being answered, ${lane.answered} answered${away} · ` +
    `${lane.speed.toFixed(1)} tok/s · first token ${first} (median)${last}`
  );
}

class VisitorsView extends RunView {
  constructor(root, { rates, model }, send) {
    super(root);
    Object.assign(this, { send, samples: { ar: [], mars: [] } });
    this.slider = make("input", "visitors-rate", "", { id: "visitors-rate" });
    Object.assign(this.slider, { type: "range", min: rates.least, max: rates.most, step: 0.1, value: rates.usual });
    this.reading = make("output", "visitors-reading");
    this.slider.addEventListener("input", () => this.showRate());
    this.slider.addEventListener("change", () => this.running && this.send({ ask: "turn", rate: this.rate }));
    this.button = button("trade-button", "", () => this.press());
    this.status = status("visitors-state");
    this.panels = Object.keys(PANELS).map((name) => this.panel(name));
    this.rows = Object.fromEntries(Object.keys(LANES).map((key) => [key, make("span")]));
    this.lay(model);
    this.showRate();
    this.show(false);
  }

  get rate() {
    return Number(this.slider.value);
  }

  lay(model) {
    const label = make("label", "", "Visitors per second", { for: this.slider.id });
    const about =
      `Visitors come at random and ask ${model} the example questions. Both lanes get the same visitors, 4 at once ` +
      "and 20 in the queue; each has a clock of its own, which counts its passes alone. It ends after a minute.";
    const legend = Object.entries(LANES).map(([key, name]) =>
      put(make("li", `visitors-${key}`), make("b", "", `${name}: `), this.rows[key]),
    );
    put(this.root, make("h2", "", "Under load, live"), make("p", "visitors-about", about));
    put(this.root, put(make("div", "visitors-bar"), label, this.slider, this.reading, this.button), this.status);
    const panels = put(make("div", "visitors-panels"), ...this.panels.map(({ root }) => root));
    this.drawn = put(make("div", "visitors-drawn"), panels, put(make("ul", "visitors-lanes"), ...legend));
    this.drawn.hidden = true;
    put(this.root, this.drawn);
  }

  panel(name) {
    const drawing = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": PANELS[name] });
    return { name, drawing, root: put(make("figure", "visitors-panel"), make("figcaption", "", PANELS[name]), drawing) };
  }

  showRate() {
    this.reading.textContent = this.rate.toFixed(1);
  }

  press() {
    if (this.running) return this.send({ ask: "stop", rate: this.rate });
    this.state({ state: "queued", sentence: "Waiting for the device." });
    return this.send({ ask: "start", rate: this.rate });
  }

  show(running) {
    this.running = running;
    this.button.textContent = running ? "Stop" : "Start";
  }

  begin() {
    this.samples = { ar: [], mars: [] };
  }

  state(message) {
    super.state(message);
    this.show(!OVER.includes(message.state));
  }

  load({ lanes }) {
    for (const [key, lane] of Object.entries(lanes)) this.samples[key].push(lane);
  }

  picture() {
    for (const [key, samples] of Object.entries(this.samples)) {
      if (samples.length) this.rows[key].textContent = wordsOf(samples.at(-1), key === "mars");
    }
    this.drawn.hidden = !this.samples.ar.length;
    for (const panel of this.panels) this.drawPanel(panel);
  }

  drawPanel({ name, drawing }) {
    clear(drawing);
    const top = topOf(Object.values(this.samples).flat(), name);
    const floor = HEIGHT - BOTTOM;
    drawing.append(
      shape("line", { x1: LEFT, y1: floor, x2: WIDTH - 4, y2: floor, class: "visitors-axis" }),
      shape("text", { x: LEFT - 6, y: 14, "text-anchor": "end" }, String(top)),
      shape("text", { x: LEFT - 6, y: floor, "text-anchor": "end" }, "0"),
      shape("text", { x: LEFT, y: HEIGHT - 4 }, "0 s"),
      shape("text", { x: WIDTH - 4, y: HEIGHT - 4, "text-anchor": "end" }, `${SECONDS} s`),
    );
    for (const [key, samples] of Object.entries(this.samples)) {
      if (samples.length) drawing.append(shape("polyline", { points: pointsOf(samples, name, top), class: `visitors-line-${key}` }));
    }
  }
}

export function mountVisitors({ element, props, watch, submit }) {
  const view = new VisitorsView(element.querySelector(".visitors"), props, submit);
  watch("value", () => view.read(props.value));
}
