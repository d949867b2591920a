// One lane: its counters, its text as groups of tokens, one group a forward pass, and its verdict.

const COUNTERS = [
  ["tokens", "tokens", (counts) => String(counts.tokens)],
  ["passes", "passes", (counts) => String(counts.passes)],
  ["tokensPerForward", "tokens / forward", (counts) => (counts.passes ? decimals(counts.tokensPerForward, 2) : "–")],
  ["seconds", "seconds", (counts) => decimals(counts.seconds, counts.seconds < 10 ? 2 : 1)],
  ["tokensPerSecond", "tok / s", (counts) => (counts.tokens ? decimals(counts.tokensPerSecond, 0) : "–")],
];

const ENDINGS = { length: "cut at the length limit", cancelled: "stopped" };

const SHARING = "Other runs took part in passes of this one: its seconds are those of whole passes.";

class LaneView {
  constructor(lane, facts) {
    this.facts = facts;
    this.tokens = [];
    this.threshold = undefined;
    this.key = lane.key;
    this.root = make("section", `lens-lane lens-lane-${lane.key}`);
    this.root.dataset.lane = lane.key;
    this.root.setAttribute("aria-label", `${lane.title} lane`);
    this.badge = make("span", "lens-badge");
    this.ending = make("span", "lens-ending");
    const name = put(make("h2", "lens-lane-title"), make("span", "lens-lane-name", lane.title));
    const about = make("p", "lens-lane-about", `${lane.checkpoint} · ${lane.note}`);
    const top = put(make("div", "lens-lane-top"), name, about, this.ending, this.badge);
    this.values = new Map();
    const list = make("dl", "lens-counters");
    for (const [key, label] of COUNTERS) {
      const value = make("dd", "", "–");
      value.dataset.counter = key;
      this.values.set(key, value);
      list.append(put(make("div", `lens-counter lens-counter-${key}`), make("dt", "", label), value));
    }
    this.text = make("div", "lens-text");
    this.text.tabIndex = 0;
    this.text.dataset.hint = lane.hint;
    this.text.setAttribute("role", "group");
    this.text.setAttribute("aria-label", `Text written by ${lane.title}; arrow keys walk through its tokens`);
    this.sharing = make("p", "lens-lane-sharing");
    put(this.root, put(make("header", "lens-lane-head"), top, list, this.sharing), this.text);
    if (lane.problem) this.text.replaceWith(make("p", "lens-lane-problem", lane.problem));
  }

  counts(counts) {
    for (const [key, , show] of COUNTERS) this.values.get(key).textContent = show(counts);
    if (counts.shared && !this.sharing.textContent) this.sharing.textContent = SHARING;
  }

  pass(message) {
    const group = make("span", `lens-pass ${message.number % 2 ? "odd" : "even"}`);
    group.dataset.pass = message.number;
    group.dataset.threshold = message.threshold === null ? "none" : String(message.threshold);
    if (this.threshold !== undefined && this.threshold !== message.threshold) {
      group.classList.add("lens-turned");
      group.dataset.turned = thresholdName(message.threshold);
    }
    this.threshold = message.threshold;
    message.tokens.forEach((token, place) => group.append(this.token(message, token, place)));
    this.text.append(group);
    this.counts(message.counts);
  }

  token(message, [piece, score, source, ends], place) {
    const node = make("span", `lens-token ${place === 0 ? "first" : "passed"}`);
    node.tabIndex = -1;
    node.dataset.index = message.start + place;
    if (ends) node.classList.add("ends");
    piece.split("\n").forEach((part, line) => {
      if (line) node.append(make("span", "lens-newline", "\n"));
      if (part) node.append(part);
    });
    this.facts.set(node, {
      pass: message.number,
      position: place + 1,
      window: message.window,
      score,
      source,
      ends,
      threshold: message.threshold,
    });
    this.tokens.push(node);
    return node;
  }

  end(message) {
    if (message.tail) this.text.append(message.tail);
    this.ending.textContent = ENDINGS[message.reason] ?? "";
    this.root.classList.add("ended");
  }

  differs(index) {
    this.tokens[index]?.classList.add("differs");
  }

  verdict(right) {
    this.badge.textContent = right ? "✓ right" : "× wrong";
    this.badge.classList.add(right ? "right" : "wrong");
  }
}
