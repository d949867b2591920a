// The counters below the text of a lane: what a pass gains, what it costs beside AR's, and how the two compare.

import { make, put } from "../shared/dom.js";
import { decimals } from "../shared/tokens.js";

const MOST_BARS = 8;
const FEWEST_BARS = 4;

const perPass = ({ counts }) => counts.passes && decimals(counts.tokensPerForward, 2);
const perPassTime = ({ milliseconds }) => milliseconds && inMilliseconds(milliseconds);
const perSecond = ({ counts }) =>
  counts.tokens && decimals(counts.tokensPerSecond, counts.tokensPerSecond < 10 ? 1 : 0);

const WRITES = "Tokens ÷ passes that write; reading the prompt and drafting do not count.";

// key, label, explanation, value of {counts, milliseconds}
const COUNTERS = [
  ["tokens", "tokens", "Tokens accepted so far, the end of the turn included.", ({ counts }) => counts.tokens],
  ["tokensPerForward", "tokens / pass", WRITES, perPass],
  ["milliseconds", "ms / pass", "Mean model time of a pass that writes.", perPassTime],
  ["tokensPerSecond", "tok / s", "Tokens ÷ seconds of model time, the prompt included.", perSecond],
];

export class Counters {
  constructor() {
    this.list = make("dl", "lens-counters");
    this.values = COUNTERS.map(([key, label, meaning, read]) => [this.cell(key, label, meaning), read]);
    this.places = make("div", "lens-places", "", { "aria-hidden": true });
    this.spoken = make("span", "lens-spoken", "none yet");
    const meaning = "Of the tokens proposed at place 1, 2, 3 … of a pass, the share that was accepted.";
    put(this.cell("places", "acceptance", meaning), this.places, this.spoken);
    this.said = make("p", "lens-cost-said");
    this.bar = make("div", "lens-cost-bar", "", { "aria-hidden": true });
    this.cost = put(make("div", "lens-cost"), this.bar, this.said);
    this.cost.hidden = true;
    this.root = put(make("div"), this.cost, this.list);
  }

  cell(key, label, meaning) {
    const value = make("dd", "", "", { "data-counter": key });
    const cell = make("div", `lens-counter lens-counter-${key}`, "", { title: meaning });
    this.list.append(put(cell, make("dt", "", label), value));
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
    const used = positions.findLastIndex(({ accepted }) => accepted) + 1;
    const count = Math.max(FEWEST_BARS, Math.min(MOST_BARS, used));
    const bars = Array.from({ length: count }, (_, place) => {
      const style = `--share: ${share(positions[place]).toFixed(3)}`;
      return make("span", "lens-place", "", { "data-at": place + 1, style });
    });
    this.places.replaceChildren(...bars);
  }

  // Whether the passes pay: the tokens that one gains, and the number of AR's passes that it takes as long as.
  pays(gain, milliseconds, base) {
    this.cost.hidden = !(gain && milliseconds && base);
    if (this.cost.hidden) return;
    const cost = milliseconds / base;
    const top = 1.25 * Math.max(gain, cost);
    this.bar.style.setProperty("--gain", (gain / top).toFixed(3));
    this.bar.style.setProperty("--cost", (cost / top).toFixed(3));
    this.bar.classList.toggle("pays", gain >= cost);
    this.said.textContent = costWords(gain, milliseconds, base);
  }
}

const share = ({ accepted, offered } = { accepted: 0, offered: 1 }) => accepted / offered;

const inWords = (positions) =>
  positions
    .slice(0, MOST_BARS)
    .map((place, at) => `${at + 1}: ${decimals(100 * share(place), 0)} % of ${place.offered}`)
    .join(", ") || "none yet";

const inMilliseconds = (value) => decimals(value, value < 100 ? 1 : 0);

export function costWords(gain, milliseconds, base) {
  const times = `A pass takes ${inMilliseconds(milliseconds)} ms, AR's ${inMilliseconds(base)} ms.`;
  const writes = decimals(gain, 2);
  if (milliseconds <= base) return `${times} This lane writes ${writes} tokens in no more time than AR takes for one.`;
  const least = decimals(milliseconds / base, 2);
  return `${times} Once the prompt is read, a pass of more than ${least} tokens is faster; this lane writes ${writes}.`;
}
