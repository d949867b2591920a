// The counters below the text of a lane: what a pass gains, what it costs beside AR's, and how the two compare.

import { make, put } from "../shared/dom.js";
import { decimals } from "../shared/tokens.js";

const MOST_BARS = 8;
const FEWEST_BARS = 4;

// key, label, explanation, value of {counts, milliseconds}
const COUNTERS = [
  ["tokens", "tokens", "Tokens accepted so far, the end of the turn included.", ({ counts }) => counts.tokens],
  ["tokensPerForward", "tokens / pass", "Tokens ÷ passes that write; reading the prompt and drafting do not count.", ({ counts }) => counts.passes && decimals(counts.tokensPerForward, 2)],
  ["milliseconds", "ms / pass", "Mean model time of a pass that writes.", ({ milliseconds }) => milliseconds && inMilliseconds(milliseconds)],
  ["tokensPerSecond", "tok / s", "Tokens ÷ seconds of model time, the prompt included.", ({ counts }) => counts.tokens && decimals(counts.tokensPerSecond, counts.tokensPerSecond < 10 ? 1 : 0)],
];

export class Counters {
  constructor() {
    this.list = make("dl", "lens-counters");
    this.values = COUNTERS.map(([key, label, meaning, read]) => [this.cell(key, label, meaning), read]);
    this.places = make("div", "lens-places", "", { "aria-hidden": true });
    this.spoken = make("span", "lens-spoken", "none yet");
    const meaning = "Of the tokens proposed at place 1, 2, 3 … of a pass, the share that was accepted.";
    put(this.cell("places", "acceptance", meaning), this.places, this.spoken);
    this.cost = new CostBar();
    this.root = put(make("div"), this.cost.root, this.list);
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

  // Acceptance by place in the pass: a bar each, and the same in words.
  draw(positions) {
    const words = inWords(positions);
    if (words === this.words) return;
    this.words = this.spoken.textContent = this.places.title = words;
    const bars = Array.from({ length: Math.max(FEWEST_BARS, Math.min(MOST_BARS, positions.length)) }, (_, place) => {
      const bar = make("span", "lens-place", "", { "data-at": place + 1 });
      bar.style.setProperty("--share", share(positions[place]).toFixed(3));
      return bar;
    });
    this.places.replaceChildren(...bars);
  }
}

const share = ({ accepted, offered } = { accepted: 0, offered: 1 }) => accepted / offered;

const inWords = (positions) =>
  positions.slice(0, MOST_BARS).map((place, at) => `${at + 1}: ${decimals(100 * share(place), 0)} % of ${place.offered}`).join(", ") || "none yet";

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

const inMilliseconds = (value) => decimals(value, value < 100 ? 1 : 0);

export function costWords(gain, milliseconds, base) {
  const needed = milliseconds > base ? `more than ${decimals(milliseconds / base, 2)} tokens a pass are` : "any number of tokens a pass is";
  return `A pass takes ${inMilliseconds(milliseconds)} ms, AR's ${inMilliseconds(base)} ms. Once the prompt is read, ${needed} faster; it writes ${decimals(gain, 2)}.`;
}
