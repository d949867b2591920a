// The stage: draws lines of JSON, which come in its growing value and, of a live run, from the feed. The value starts anew
// with every run. All lines that come at once go into the page at once, and nothing is measured for them; charts and
// "lens:counts" follow the beat.

const ENDED = new Set(["done", "stopped", "failed"]);
const ROOM_ABOVE = 0.66; // of the window's height

class Stage {
  constructor(root) {
    this.root = root;
    this.facts = new WeakMap();
    this.tips = new WeakMap();
    this.lanes = new Map();
    this.news = new News(() => this.stepThrough());
    this.track = make("div", "lens-lanes");
    put(root, this.news.root, this.track, legend(root));
    this.sizes = new ResizeObserver(() => this.keepBelow());
    this.knobs = null;
    this.keepBelow();
    this.pointer = new Pointer(this, new TokenCard(root));
    this.tip = new Tip(root, this.tips);
    this.beat = new Beat(() => this.draw());
    this.lines = new Lines((message) => this[message.kind]?.(message));
    this.feed = new Feed(this.lines, () => this.picture());
  }

  read(value) {
    this.lines.read(value);
    this.picture();
  }

  // What the lines that came at once say together.
  picture() {
    if (this.ratios) this.news.speedup(this.ratios);
    this.ratios = null;
    for (const lane of this.lanes.values()) lane.flush();
    this.beat.ask();
  }

  open(message) {
    this.ratios = null;
    this.pointer.leave();
    this.tip.close();
    this.lanes.clear();
    this.track.replaceChildren();
    this.track.dataset.count = message.lanes.length;
    for (const lane of message.lanes) {
      const view = new LaneView(lane, this.facts, this.tips);
      this.lanes.set(lane.key, view);
      this.track.append(view.root);
    }
    this.news.open(this.lanes);
    this.root.dataset.run = message.id;
    this.feed.follow(message.live ? message.id : null);
  }

  state({ state, sentence }) {
    if (state === "running" && this.root.dataset.state !== "running") requestAnimationFrame(() => this.reveal());
    this.root.dataset.state = state;
    if (ENDED.has(state)) this.feed.follow(null);
    this.news.status.textContent = sentence;
  }

  refusal({ sentence }) {
    this.state({ state: "failed", sentence });
  }

  pass(message) {
    this.lanes.get(message.lane).pass(message);
  }

  counts(message) {
    this.lanes.get(message.lane).counts(message.counts);
  }

  inactive(message) {
    this.lanes.get(message.lane).inactive(message.sentence);
  }

  end(message) {
    this.lanes.get(message.lane).end(message);
  }

  difference({ tokens, baseline }) {
    const several = this.lanes.size > 2;
    for (const key of Object.keys(tokens).filter((each) => each !== baseline)) {
      this.lanes.get(key).differs(tokens[key], several ? baseline.toUpperCase() : "");
      this.lanes.get(baseline).differs(tokens[baseline], several ? key.toUpperCase() : "");
      this.news.part(key, baseline, tokens);
    }
  }

  same({ lanes, baseline = lanes[0] }) {
    for (const key of lanes.filter((each) => each !== baseline)) this.news.part(key, baseline, null);
  }

  verdict(message) {
    this.lanes.get(message.lane).verdict(message.right);
  }

  // Only the last of a picture is ever seen.
  speedup(message) {
    this.ratios = message;
  }

  // What may lag a little behind the text: charts, the open tip, and word to the rest of the page.
  draw() {
    this.tip.refresh();
    for (const view of this.lanes.values()) {
      view.draw();
      if (view.news) this.tell(view);
      view.news = false;
    }
  }

  tell({ lane, counters, threshold = null }) {
    const { key, family, checkpoint, decoder, choice: settings } = lane;
    const { run } = this.root.dataset;
    const detail = { run, lane: key, family, checkpoint, decoder, settings, counts: counters.state.counts, threshold };
    document.dispatchEvent(new CustomEvent("lens:counts", { detail }));
  }

  // Bring the texts into view: with the knobs and what the lanes are set to above them, where that leaves them room.
  reveal() {
    this.keepBelow();
    if (this.track.getBoundingClientRect().bottom <= window.innerHeight) return;
    const { knobs } = this;
    const text = this.track.querySelector(".lens-text") ?? this.track;
    const below = text.getBoundingClientRect().top - (knobs?.getBoundingClientRect().top ?? 0);
    const narrow = window.matchMedia("(max-width: 800px)").matches;
    const top = narrow || below > window.innerHeight * ROOM_ABOVE ? this.root : knobs;
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    top?.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
  }

  // The heads of the lanes stick under the row of knobs, where that sticks itself.
  keepBelow() {
    if (!this.knobs?.isConnected) {
      this.knobs = document.querySelector(".lens-controls"); // Gradio builds the page more than once
      this.sizes.disconnect();
      if (this.knobs) this.sizes.observe(this.knobs);
    }
    const sticks = this.knobs && getComputedStyle(this.knobs).position === "sticky";
    this.root.style.setProperty("--lens-top", sticks ? `${this.knobs.offsetHeight - 1}px` : "0px");
  }

  stepThrough() {
    document.dispatchEvent(new CustomEvent("lens:step", { detail: { run: this.root.dataset.run } }));
  }
}

const stage = new Stage(element.querySelector(".lens-stage"));
stage.read(props.value);
// In a task of its own: Gradio has done enough in this one.
watch("value", () => setTimeout(() => stage.read(props.value)));
