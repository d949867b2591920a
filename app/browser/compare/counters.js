// The counters below the text of a lane: what a pass gains, what it costs beside AR's, and how the two compare.

import { make, put } from "../shared/dom.js";
import { decimals } from "../shared/tokens.js";

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
    this.cost = make("p", "lens-cost");
    this.root = put(make("div"), this.cost, this.list);
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

  // Whether passes pay, beside AR's, which take `base` milliseconds; nothing where one of the figures is 0.
  compare(gain, milliseconds, base) {
    this.cost.textContent = gain && milliseconds && base ? costWords(gain, milliseconds, base) : "";
  }
}

function inMilliseconds(value) {
  return decimals(value, value < 100 ? 1 : 0);
}

export function costWords(gain, milliseconds, base) {
  const [cost, tokens] = [milliseconds / base, decimals(gain, 2)];
  const passes = `A pass takes ${inMilliseconds(milliseconds)} ms, AR's ${inMilliseconds(base)} ms`;
  const even = decimals(cost, 2);
  return `${passes}. It must write more than ${even} tokens a pass to be faster, and writes ${tokens}${gain < cost ? ", so it is slower" : ""}.`;
}
