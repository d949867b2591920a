// The stage: draws messages. Its value introduces the lanes, or says which live run to follow; the feed brings what that
// run writes. All messages that come at once go into the page at once, and nothing is measured for them; charts and
// "lens:counts" follow with the next frame. Before anything is run it plays a recorded run, and a run that is over can be
// replayed.

import { pageAddress } from "../shared/address.js";
import { announce, checkbox, keep, kept, make, ours, put } from "../shared/dom.js";
import { FrameTimer, OVER, RunView } from "../shared/feed.js";
import { keeper } from "../shared/keeper.js";
import { hearLines } from "../shared/messages.js";
import { bandNode, tokenNode } from "../shared/tokens.js";
import { TokenCard } from "./card.js";
import { Replay, StageFoot } from "./foot.js";
import { LanePicks } from "./lane-picks.js";
import { LaneView } from "./lane.js";
import { Pointer, Tip } from "./pointer.js";
import { differ, LETTERS, Recorded } from "./recorded.js";

const BEFORE = new Set(["idle", "loading"]);
const OF_A_LANE = new Set(["pass", "counts", "inactive", "end", "verdict"]);
const DETAILS_KEY = "mars-lens:details";
const FEW = 2; // lanes for which a projector has room

class Stage extends RunView {
  // `ended` hears the identity of a run of which no more will come.
  constructor(root, recorded, ended) {
    super(root);
    this.ended = ended;
    this.facts = new WeakMap();
    this.tips = new WeakMap();
    this.lanes = new Map();
    this.track = make("div", "lens-lanes");
    this.picks = new LanePicks(root, (key) => this.look({ lane: key }));
    keeper.place = () => this.place;
    this.looked = {}; // {lane: key, number: of a pass}, which Step through opens with
    this.replay = new Replay(() => this.picks.draw());
    this.foot = new StageFoot(this.replay, () => this.stepThrough());
    put(root, caption(root), this.picks.root, this.track, this.foot.root);
    this.sizes = new ResizeObserver(() => this.keepBelow());
    this.bar = null;
    this.keepBelow();
    this.pointer = new Pointer(this, new TokenCard(root));
    this.tip = new Tip(root, this.tips);
    this.frames = new FrameTimer(() => this.draw());
    this.show = null; // the recorded run while it is in view
    this.few = false;
    this.refitted = false; // whether the lanes that come next are other ones only because a projector has less room
    document.addEventListener("lens:looks", () => this.refit());
    root.addEventListener("mouseover", ({ target }) => this.look({ lane: target.closest?.(".lens-lane")?.dataset.lane }));
    if (recorded) this.fetchRecorded(recorded);
  }

  // Lanes are introduced again and again while they load, and not while a run is followed.
  read(value) {
    hearLines(value, (message) => {
      const known = message.kind === "open" && message.id === this.root.dataset.run;
      if (!known && (!this.run || message.kind === "follow")) this.hear(message);
    });
    this.picture();
  }

  hear(message) {
    if (OF_A_LANE.has(message.kind)) this.lanes.get(message.lane)[message.kind]?.(message);
    else super.hear(message);
  }

  begin(id) {
    this.root.dataset.run = id;
    this.state({ state: "loading", sentence: "Starting …" });
    this.leaveRecorded();
  }

  // Draw once for all lines that came together.
  picture() {
    if (this.ratios) this.foot.speedup(this.ratios);
    this.ratios = null;
    for (const lane of this.lanes.values()) lane.flush();
    this.frames.ask();
  }

  open(message) {
    this.ratios = null;
    this.pointer.leave();
    this.tip.close();
    const before = this.chosen;
    this.chosen = JSON.stringify(message.lanes.map(({ settings }) => settings));
    if (before && before !== this.chosen && !this.refitted) this.leaveRecorded();
    this.refitted = false;
    this.lanes.clear();
    this.track.replaceChildren();
    this.track.dataset.count = message.lanes.length;
    for (const lane of message.lanes) {
      const view = new LaneView(lane, this.facts, this.tips);
      this.lanes.set(lane.key, view);
      this.track.append(view.root);
    }
    this.keepBelow();
    this.foot.open(this.lanes);
    this.looked = { lane: this.looked.lane };
    if (!this.show) this.fit();
    this.root.dataset.run = message.id;
  }

  // Show as many lanes as fit: for a projector two, unless somebody has asked for three.
  fit() {
    const large = document.documentElement.classList.contains("lens-projector");
    this.few = Boolean(large && (this.show || pageAddress()?.settings.given.lanes !== String(LETTERS.length)));
    const track = this.show?.track ?? this.track;
    track.classList.toggle("few", this.few);
    const lanes = new Map([...(this.show?.lanes ?? this.lanes)].slice(0, this.few ? FEW : LETTERS.length));
    const { over } = this.replay;
    this.picks.open(lanes);
    this.replay.open(lanes, Boolean(this.show));
    this.replay.ended(over);
  }

  // The page looks otherwise: what was played begins again, and what was over is shown whole.
  refit() {
    const playing = Boolean(this.replay.timer);
    const { few } = this;
    this.fit();
    this.refitted ||= few !== this.few;
    if (!this.replay.over) return;
    this.replay.seek(Infinity);
    if (playing) this.replay.begin();
  }

  look({ lane, number }) {
    if (lane && this.lanes.has(lane)) this.looked = { lane, number: number ?? (lane === this.looked.lane ? this.looked.number : null) };
  }

  state({ state, sentence }) {
    this.root.dataset.state = state;
    const wrote = [...this.lanes.values()].every(({ passes }) => passes.length);
    document.querySelector(".lens-stop-or-follow")?.classList.toggle("over", wrote && (state === "done" || state === "stopped"));
    document.querySelector(".lens-next-run")?.classList.toggle("shown", state === "running");
    if (!BEFORE.has(state)) this.leaveRecorded();
    if (!this.show) this.replay.ended(OVER.includes(state));
    super.state({ state, sentence });
  }

  get status() {
    return this.foot.status;
  }

  difference(message) {
    differ(this.lanes, message);
    for (const key of Object.keys(message.tokens).filter((each) => each !== message.baseline)) {
      this.foot.part(key, message.baseline, message.tokens);
    }
  }

  agreement({ lane, baseline, tokens, whole }) {
    const other = this.lanes.get(baseline).lane.title;
    this.lanes.get(lane).agrees(whole ? `Same text as ${other}` : `Same text as ${other} so far`, tokens);
  }

  waiting({ lanes }) {
    for (const [key, sentence] of Object.entries(lanes)) this.lanes.get(key)?.waits(sentence);
  }

  same({ lanes, baseline = lanes[0] }) {
    for (const key of lanes.filter((each) => each !== baseline)) this.foot.part(key, baseline, null);
  }

  // Only the last of a picture is ever seen.
  speedup(message) {
    this.ratios = message;
  }

  // Draw the parts that may lag a little behind the text: charts and the open tip; tell the rest of the page.
  draw() {
    this.tip.refresh();
    for (const view of this.lanes.values()) {
      view.draw();
      if (view.changed) this.tell(view);
      view.changed = false;
    }
    if (!this.show) {
      this.replay.draw();
      this.picks.draw();
    }
  }

  tell({ lane, counters, threshold = null }) {
    const { key, family, checkpoint, decoder, settings } = lane;
    const { run } = this.root.dataset;
    const detail = { run, lane: key, family, checkpoint, decoder, settings, counts: counters.state.counts, threshold };
    announce("lens:counts", detail);
  }

  // The lanes whose tokens can be looked at.
  get views() {
    return [...(this.show?.lanes ?? this.lanes).values()];
  }

  // The heads of the lanes stick under the bar, where that sticks itself.
  keepBelow() {
    if (!this.bar?.isConnected) {
      this.bar = document.querySelector(".lens-controls"); // Gradio builds the page more than once
      this.sizes.disconnect();
      if (this.bar) this.sizes.observe(this.bar);
    }
    const sticks = this.bar && getComputedStyle(this.bar).position === "sticky";
    this.root.style.setProperty("--lens-top", sticks ? `${this.bar.offsetHeight - 1}px` : "0px");
  }

  // The lane and the pass that one looks at: where the replay was stopped, else the last token that was looked at.
  get place() {
    const { lane = null, number = null } = this.looked;
    const view = this.lanes.get(lane);
    return { lane, number: view?.gone ? view.passes[view.gone - 1]?.number : number };
  }

  stepThrough() {
    announce("lens:step", { run: this.root.dataset.run, ...this.place });
  }

  async fetchRecorded(path) {
    const answer = await fetch(ours(path)).catch(() => null);
    const text = answer?.ok ? await answer.text() : "";
    if (!text || !BEFORE.has(this.root.dataset.state ?? "idle")) return;
    this.show = new Recorded(text, this.facts, this.tips);
    this.track.hidden = true;
    this.track.after(this.show.track);
    this.foot.recorded(this.show.prompt);
    this.fit();
    this.replay.ended(true);
    this.replay.show();
  }

  leaveRecorded() {
    if (!this.show) return;
    this.pointer.leave();
    this.show.track.remove();
    this.show = null;
    this.track.hidden = false;
    this.foot.recorded("");
    this.fit();
  }
}

export function mountStage({ element, props, watch, submit }) {
  const stage = new Stage(element.querySelector(".lens-stage"), props.recorded, submit);
  stage.read(props.value);
  // In a task of its own: Gradio has done enough in this one.
  watch("value", () => setTimeout(() => stage.read(props.value)));
}

// The key of bands, in three examples above the lanes, and the switch for details, which the browser remembers.
function caption(root) {
  const samples = [
    ["one token", sample([["The"]])],
    ["three tokens", sample([["The", " sky", " is"]])],
    ["three passes", sample([["It", " is"], [" a"], [" long", " way"]])],
  ];
  const list = make("ul", "lens-signs", "", { "aria-label": "Examples" });
  for (const [label, shown] of samples) list.append(put(make("li"), shown, make("span", "", label)));
  const said = make("p", "lens-caption-said", "Each colour band came out of one forward pass");
  return put(make("div", "lens-caption"), said, list, detailsSwitch(root));
}

function sample(bands) {
  const shown = make("span", "lens-sample");
  bands.forEach((pieces, place) => {
    const tokens = pieces.map((piece) => tokenNode(piece, { kind: "clean", sure: 1, first: false, ends: false }));
    shown.append(bandNode(place + 1, tokens));
  });
  return shown;
}

function detailsSwitch(root) {
  const set = () => root.classList.toggle("details", box.checked);
  const change = () => {
    keep(DETAILS_KEY, box.checked ? "on" : "off");
    set();
  };
  const box = checkbox(kept(DETAILS_KEY) === "on", change, { role: "switch" });
  set();
  const label = put(make("label", "lens-switch"), box, make("span", "", "Details"));
  label.title = "A line under each token: the longer, the surer; dashed: read from masks; double: a draft. And the first rejected proposal of each pass.";
  return label;
}
