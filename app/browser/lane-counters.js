// The counters of a lane. Each says what it counts, and its formula with the numbers of now, in a tip (tip.js).

const SHARING = "Other runs took part in passes of this one: its seconds are those of whole passes.";

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

class Counters {
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
    const button = make("button", "lens-why", label);
    button.type = "button";
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
