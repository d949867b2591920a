// The counters of a lane and its history of τ. Each counter says what it counts, and its formula with the numbers of now,
// in a tip (pointer.js).

import { isSurerWhenLower } from "../shared/decoders.js";
import { make, put, shape } from "../shared/dom.js";
import { decimals, plural, thresholdName } from "../shared/tokens.js";

const MOST_BARS = 8; // the last one stands for all longer ones too
const FEWEST_BARS = 4;
const ONE_TOKEN_LEVEL = 8; // heights are per cent of the picture, from the top
const HIGHEST_LEVEL = 30;
const LOWEST_LEVEL = 92;
const MOST_SPOKEN = 8; // thresholds in words
export const SHARING = "Other runs shared these passes; the seconds are those of the whole passes.";

// key, label, value, explanation. `lane` is the view: its counts, its ratio, and the name of the baseline.
const COUNTERS = [
  ["tokens", "tokens", ({ counts }) => String(counts.tokens), () => "Tokens accepted so far, the end of the turn included."],
  [
    "passes",
    "passes",
    ({ counts }) => String(counts.passes),
    () => "Forward passes that write: decode and verify. Those that only read the prompt, fill the cache or draft do not count.",
  ],
  [
    "tokensPerForward",
    "tokens / forward",
    ({ counts }) => (counts.passes ? decimals(counts.tokensPerForward, 2) : "–"),
    ({ counts }) => `Tokens ÷ passes${counts.passes ? ` = ${counts.tokens} ÷ ${counts.passes}` : ""}.`,
  ],
  [
    "seconds",
    "seconds",
    ({ counts }) => decimals(counts.seconds, counts.seconds < 10 ? 2 : 1),
    ({ counts }) =>
      `Model time of all passes, the prompt included; drawing, sending and the chosen pace are not in it.${counts.shared ? ` ${SHARING}` : ""}`,
  ],
  [
    "tokensPerSecond",
    "tok / s",
    ({ counts }) => (counts.tokens ? decimals(counts.tokensPerSecond, 0) : "–"),
    ({ counts }) => `Tokens ÷ seconds${counts.seconds ? ` = ${counts.tokens} ÷ ${decimals(counts.seconds, 3)}` : ""}.`,
  ],
  [
    "speedup",
    "speed-up",
    ({ ratio }) => (ratio ? `${decimals(ratio, 2)}×` : "–"),
    ({ isBaseline, baseline }) =>
      isBaseline
        ? "This lane is the baseline: the others are compared with it."
        : `Tok / s of this lane ÷ tok / s of ${baseline || "the baseline"}.`,
  ],
];

const NOTHING = { tokens: 0, passes: 0, tokensPerForward: 0, seconds: 0, tokensPerSecond: 0, shared: false, lengths: [] };

export class Counters {
  // `tips` gets, for each button, the function that says what the counter means.
  constructor(tips) {
    this.state = { counts: NOTHING, ratio: null, isBaseline: false, baseline: "" };
    this.values = new Map();
    this.lengths = new LengthBars();
    this.list = make("dl", "lens-counters");
    for (const [key, label, , explain] of COUNTERS) {
      const value = make("dd", "", "–");
      value.dataset.counter = key;
      this.values.set(key, value);
      this.list.append(this.cell(tips, key, label, value, () => explain(this.state)));
    }
    const lengths = put(make("dd"), this.lengths.bars, this.lengths.spoken);
    this.list.append(this.cell(tips, "lengths", "accepted / pass", lengths, () => this.lengths.explain()));
    this.root = put(make("div", "lens-strip"), this.list);
  }

  cell(tips, key, label, value, explain) {
    const button = make("button", "lens-why", label, { type: "button" });
    tips.set(button, explain);
    return put(make("div", `lens-counter lens-counter-${key}`), put(make("dt"), button), value);
  }

  // `change`: any of counts, ratio, isBaseline, baseline.
  show(change) {
    Object.assign(this.state, change);
    for (const [key, , read] of COUNTERS) {
      const node = this.values.get(key);
      const text = read(this.state);
      if (node.textContent !== text) node.textContent = text;
    }
  }

  draw() {
    this.lengths.draw(this.state.counts.lengths ?? []);
  }
}

// The number of passes that accepted 1, 2, 3 … tokens: a bar for each length, and the same in words.
class LengthBars {
  constructor() {
    this.bars = make("div", "lens-lengths", "", { "aria-hidden": true });
    this.spoken = make("span", "lens-spoken", "none yet");
    this.lengths = [];
  }

  // `lengths[n]` passes accepted n + 1 tokens.
  draw(lengths) {
    if (lengths.length === this.lengths.length && lengths.every((count, place) => count === this.lengths[place])) return;
    this.lengths = [...lengths];
    const bins = binned(lengths);
    while (this.bars.children.length < bins.length) this.bars.append(make("span", "lens-length"));
    const most = Math.max(1, ...bins);
    bins.forEach((count, place) => {
      const bar = this.bars.children[place];
      bar.dataset.length = place + 1 === MOST_BARS && lengths.length > MOST_BARS ? `${place + 1}+` : place + 1;
      bar.style.setProperty("--share", (count / most).toFixed(3));
      bar.classList.toggle("none", count === 0);
    });
    this.spoken.textContent = inWords(lengths) || "none yet";
  }

  explain() {
    const words = inWords(this.lengths);
    return `How many tokens one pass accepted${words ? `: ${words}.` : "; their mean is tokens / forward."}`;
  }
}

export function binned(lengths) {
  const bins = lengths.slice(0, MOST_BARS);
  for (const count of lengths.slice(MOST_BARS)) bins[MOST_BARS - 1] += count;
  while (bins.length < FEWEST_BARS) bins.push(0);
  return bins;
}

export function inWords(lengths) {
  const parts = lengths.map((count, place) => [place + 1, count]).filter(([, count]) => count);
  return parts.map(([length, count]) => `${plural(length, "token")} in ${plural(count, "pass", "passes")}`).join(", ");
}

// The threshold of each pass as a line of steps, under the text. One token per pass is a level of its own, on top.
export class ThresholdHistory {
  constructor(lane) {
    this.unbounded = isSurerWhenLower(lane.score);
    this.turns = []; // [pass, threshold], where the threshold became another one
    this.passes = 0;
    this.drawn = 0;
    this.root = make("figure", "lens-history");
    this.root.hidden = true;
    this.where = make("span", "lens-history-where");
    this.line = shape("path", { class: "lens-history-line", d: "" });
    this.grid = shape("path", { class: "lens-history-grid", d: "" });
    this.picture = shape("svg", { class: "lens-history-picture", preserveAspectRatio: "none", "aria-hidden": "true" });
    this.picture.append(this.grid, this.line);
    this.top = make("span", "lens-history-level");
    this.bottom = make("span", "lens-history-level");
    this.single = make("span", "lens-history-level", "1 token");
    this.now = make("span", "lens-history-now");
    const plot = make("div", "lens-history-plot", "", { "aria-hidden": true });
    put(plot, this.picture, this.single, this.top, this.bottom, this.now);
    const title = put(make("figcaption", "lens-history-title"), make("span", "", "Threshold τ over the passes"), this.where);
    this.spoken = make("p", "lens-spoken");
    put(this.root, title, plot, this.spoken);
  }

  add(pass, threshold) {
    if (this.turns.length === 0 || this.turns.at(-1)[1] !== threshold) this.turns.push([pass, threshold]);
    this.passes = pass;
  }

  // A threshold that never changed is no history: its place stays free for the text.
  draw() {
    if (this.passes === this.drawn || this.turns.length < 2) return;
    this.drawn = this.passes;
    const [low, high] = this.range();
    const level = (threshold) =>
      threshold === null
        ? ONE_TOKEN_LEVEL
        : HIGHEST_LEVEL + ((high - threshold) / (high - low)) * (LOWEST_LEVEL - HIGHEST_LEVEL);
    const steps = this.turns.map(([pass, threshold], turn) => `${turn ? "V" : "M0 "}${level(threshold)}H${this.until(turn) || pass}`);
    this.picture.setAttribute("viewBox", `0 0 ${this.passes} 100`);
    this.line.setAttribute("d", steps.join(""));
    this.grid.setAttribute("d", `M0 ${HIGHEST_LEVEL}H${this.passes}M0 ${LOWEST_LEVEL}H${this.passes}`);
    const current = this.turns.at(-1)[1];
    this.now.textContent = current === null ? "1 token" : `τ ${current.toFixed(2)}`;
    this.now.style.top = `${level(current)}%`;
    this.label(this.top, high.toFixed(2), HIGHEST_LEVEL);
    this.label(this.bottom, low.toFixed(2), LOWEST_LEVEL);
    this.label(this.single, "1 token", ONE_TOKEN_LEVEL);
    this.single.hidden = this.turns.every(([, threshold]) => threshold !== null);
    this.where.textContent = `pass ${this.passes}`;
    this.spoken.textContent = this.inWords();
    this.root.hidden = false;
  }

  // The last pass of a turn's threshold.
  until(turn) {
    return turn + 1 < this.turns.length ? this.turns[turn + 1][0] - 1 : this.passes;
  }

  range() {
    const known = this.turns.map(([, threshold]) => threshold).filter((threshold) => threshold !== null);
    if (this.unbounded) return [0, Math.max(1, ...known)];
    return [Math.min(...known) < 0.5 ? 0 : 0.5, 1];
  }

  label(node, text, level) {
    node.textContent = text;
    node.style.top = `${level}%`;
  }

  inWords() {
    const last = this.turns.slice(-MOST_SPOKEN).map(([pass, threshold]) => `${thresholdName(threshold)} from pass ${pass}`);
    const earlier = this.turns.length - last.length;
    return `${earlier ? `After ${earlier} earlier changes: ` : ""}${last.join(", ")}.`;
  }
}
