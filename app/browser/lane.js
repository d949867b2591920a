// One lane: who writes, its counters, its text as groups of tokens, one group a forward pass, its history of τ, and its
// verdict. What messages bring is kept until `flush` puts it into the page, and charts wait for `draw`.

const ENDINGS = { length: "cut at the length limit", cancelled: "stopped" };

class LaneView {
  // `lane` is the lane of the message that opened the run; `facts` gets what each token and ghost stands for.
  constructor(lane, facts, tips) {
    this.lane = { ...lane, score: lane.choice?.score ?? "probability" };
    this.facts = facts;
    this.tokens = [];
    this.threshold = undefined;
    this.latest = null;
    this.newest = null; // of the passes in the page
    this.last = null; // of all
    this.news = false;
    this.waiting = document.createDocumentFragment();
    this.root = make("section", `lens-lane lens-lane-${lane.family}`);
    this.root.dataset.lane = lane.key;
    this.root.setAttribute("aria-label", `${lane.title} lane`);
    this.counters = new Counters(tips);
    this.history = lane.family === "masks" ? new ThresholdHistory(this.lane) : null;
    this.sharing = make("p", "lens-lane-sharing");
    this.reason = make("p", "lens-lane-inactive");
    this.text = lane.problem ? make("p", "lens-lane-problem", lane.problem) : this.block();
    put(this.root, this.top(), this.counters.root, this.reason, this.sharing, this.text);
    if (this.history) this.root.append(this.history.root);
    this.inactive(lane.inactive ?? null);
  }

  top() {
    const { key, title, checkpoint, note } = this.lane;
    this.badge = make("span", "lens-badge");
    this.ending = make("span", "lens-ending");
    const letter = make("span", "lens-lane-letter", key.toUpperCase());
    const name = put(make("h2", "lens-lane-title"), letter, make("span", "lens-lane-name", title));
    const about = make("p", "lens-lane-about", `${checkpoint} · ${note}`);
    about.title = about.textContent;
    return put(make("div", "lens-lane-top"), name, about, this.ending, this.badge);
  }

  block() {
    const text = make("div", "lens-text");
    text.tabIndex = 0;
    text.dataset.hint = this.lane.hint;
    text.setAttribute("role", "group");
    text.setAttribute("aria-label", `Text written by ${this.lane.title}; arrow keys walk through its tokens`);
    return text;
  }

  get name() {
    return `${this.lane.key.toUpperCase()} · ${this.lane.title}`;
  }

  counts(counts) {
    this.latest = counts;
    this.news = true;
  }

  pass(message) {
    const group = passGroup(this.lane, message, this.facts);
    if (this.threshold !== undefined && this.threshold !== message.threshold) {
      group.classList.add("lens-turned");
      group.dataset.turned = thresholdName(message.threshold);
    }
    this.threshold = message.threshold;
    this.history?.add(message.number, message.threshold);
    for (const node of group.children) if (node.dataset.index) this.tokens.push(node);
    this.waiting.append(group);
    if (message.ghosts?.length) this.waiting.append(ghostRow(this.lane, message, this.facts));
    this.last = group;
    if (message.counts) this.counts(message.counts); // a later pass of the same picture has them otherwise
  }

  end(message) {
    if (message.tail) this.waiting.append(message.tail);
    this.ending.textContent = ENDINGS[message.reason] ?? "";
    this.flush();
    this.newest?.classList.remove("newest"); // of the last pass alone: a class of the lane is a new style for all its text
    keepGhosts(this.text.querySelectorAll(".lens-ghosts"));
  }

  // Put what has come since the last time into the page, at once.
  flush() {
    if (this.latest) {
      this.counters.show({ counts: this.latest });
      if (this.latest.shared && !this.sharing.textContent) this.sharing.textContent = SHARING;
      this.latest = null;
    }
    if (!this.waiting.hasChildNodes()) return;
    if (this.last !== this.newest) {
      this.newest?.classList.remove("newest");
      this.last.classList.add("newest");
      this.newest = this.last;
    }
    this.text.append(this.waiting);
  }

  draw() {
    this.counters.draw();
    this.history?.draw();
  }

  // `other` names the lane that it differs from, where there are several.
  differs(index, other) {
    const token = this.tokens[index];
    if (!token) return;
    token.classList.add("differs");
    token.dataset.differs = `${token.dataset.differs ?? ""}${other}`;
  }

  verdict(right) {
    this.badge.textContent = right ? "✓ right" : "× wrong";
    this.badge.classList.add(right ? "right" : "wrong");
  }

  inactive(sentence) {
    this.reason.textContent = sentence ?? "";
    this.root.classList.toggle("inactive", Boolean(sentence));
  }

  // What can be walked through with the arrow keys: the tokens, and the ghosts that are shown.
  get places() {
    const ghosts = this.text.querySelector(".lens-ghost") !== null;
    if (!ghosts) return this.tokens;
    const all = [...this.text.querySelectorAll(".lens-token, .lens-ghost")];
    return all.filter((node) => node.classList.contains("lens-token") || node.getClientRects().length);
  }
}
