// The counters below the text of a lane: what a pass gains, what it costs beside AR's, and how the two compare.

import { make, put } from "../shared/dom.js";
import { decimals, plural } from "../shared/tokens.js";

const MOST_BARS = 8; // the last one stands for all longer ones too
const FEWEST_BARS = 4;

// key, label, explanation, value of {counts, milliseconds}
const COUNTERS = [
  ["tokens", "tokens", "Tokens accepted so far, the end of the turn included.", ({ counts }) => counts.tokens],
  ["tokensPerForward", "tokens / pass", "Tokens ÷ passes that write; reading the prompt and drafting do not count.", ({ counts }) => counts.passes && decimals(counts.tokensPerForward, 2)],
  ["milliseconds", "ms / pass", "Mean model time of a pass that writes.", ({ milliseconds }) => milliseconds && decimals(milliseconds, 1)],
  ["tokensPerSecond", "tok / s", "Tokens ÷ seconds of model time, the prompt included.", ({ counts }) => counts.tokens && decimals(counts.tokensPerSecond, 0)],
];

export class Counters {
  constructor() {
    this.list = make("dl", "lens-counters");
    this.values = COUNTERS.map(([key, label, meaning, read]) => [this.cell(key, label, meaning), read]);
    this.lengths = make("div", "lens-lengths", "", { "aria-hidden": true });
    this.spoken = make("span", "lens-spoken", "none yet");
    const meaning = "How many passes accepted 1, 2, 3 … tokens.";
    put(this.cell("lengths", "accepted / pass", meaning), this.lengths, this.spoken);
    this.cost = new CostBar();
    this.root = put(make("div", "lens-strip"), this.cost.root, this.list);
  }

  cell(key, label, meaning) {
    const value = make("dd", "", "", { "data-counter": key });
    this.list.append(put(make("div", `lens-counter lens-counter-${key}`, "", { title: meaning }), make("dt", "", label), value));
    return value;
  }

  show(state) {
    for (const [node, read] of this.values) {
      const text = String(read(state) || "–");
      if (node.textContent !== text) node.textContent = text;
    }
  }

  // The number of passes that accepted 1, 2, 3 … tokens: a bar for each length, and the same in words.
  draw(lengths = []) {
    const words = inWords(lengths);
    if (words === this.words) return;
    this.words = this.spoken.textContent = words;
    const bins = binned(lengths);
    const most = Math.max(1, ...bins);
    this.lengths.replaceChildren(
      ...bins.map((count, place) => {
        const longer = place + 1 === MOST_BARS && lengths.length > MOST_BARS;
        const bar = make("span", "lens-length", "", { "data-length": `${place + 1}${longer ? "+" : ""}` });
        bar.style.setProperty("--share", (count / most).toFixed(3));
        return bar;
      }),
    );
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
  return parts.map(([length, count]) => `${plural(length, "token")} in ${plural(count, "pass", "passes")}`).join(", ") || "none yet";
}

// Whether the passes of a lane pay: the tokens that one gains, and the number of AR's passes that it takes as long as.
class CostBar {
  constructor() {
    this.said = make("p", "lens-cost-said");
    this.bar = make("div", "lens-cost-bar", "", { "aria-hidden": true });
    this.root = put(make("div", "lens-cost"), this.bar, this.said);
    this.root.hidden = true;
  }

  show(gain, milliseconds, base) {
    this.root.hidden = !(gain && milliseconds && base);
    if (this.root.hidden) return;
    const cost = milliseconds / base;
    const top = 1.25 * Math.max(gain, cost);
    this.bar.style.setProperty("--gain", (gain / top).toFixed(3));
    this.bar.style.setProperty("--cost", (cost / top).toFixed(3));
    this.bar.classList.toggle("pays", gain >= cost);
    this.said.textContent = costWords(gain, milliseconds, base);
  }
}

export function costWords(gain, milliseconds, base) {
  const [cost, tokens] = [milliseconds / base, decimals(gain, 2)];
  const passes = `A pass takes ${decimals(milliseconds, 1)} ms, AR's ${decimals(base, 1)} ms`;
  const even = decimals(cost, 2);
  return `${passes}: it pays from ${even} tokens a pass on, and gains ${tokens}${gain < cost ? ", so it is slower" : ""}.`;
}
