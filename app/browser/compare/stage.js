// The stage: draws messages. Its value introduces the lanes, or says which live run to follow. All messages that come
// at once go into the page at once, and nothing is measured for them; charts follow at most four times a second. Before
// anything is run it plays a recorded run, as long as the prompt is that of the recording; a run that is over can be
// replayed.

import { announce, button, checkbox, handFocus, keep, kept, make, put, status } from "../shared/dom.js";
import { OVER, recordedRun, RunView } from "../shared/feed.js";
import { keeper, SHARED_AS, shareFile } from "../shared/keeper.js";
import { messagesOf } from "../shared/messages.js";
import { bandNode, letterWords, oneLine, tokenNode } from "../shared/tokens.js";
import { TokenCard } from "./card.js";
import { LanePicks, LaneSet } from "./lanes.js";
import { Pointer } from "./pointer.js";
import { Replay } from "./replay.js";

const BEFORE = new Set(["idle", "loading"]);
const DETAILS_KEY = "mars-lens:details";
const LEGEND =
  "A longer line under a token: the model was surer of it. The line is plain where it read real text, dashed where a " +
  "mask, double where a draft. Framed tokens were not accepted.";
const PATIENCE = 5_000; // milliseconds
const DRAWING_GAP = 250;
const UNANSWERED = "The server does not answer. Is it still running, and is this browser online?";

class Stage extends RunView {
  // `ended` hears the identity of a run of which no more will come, `branch` what answers are to start with.
  constructor(root, recorded, ended, branch) {
    super(root);
    Object.assign(this, { ended, branch, facts: new WeakMap(), lanes: new LaneSet() });
    this.recorded = null; // the recorded run while it is in view
    this.picks = new LanePicks((key) => this.look({ lane: key }));
    this.looked = {}; // {lane: key, number: of a pass}, which Step through opens with
    this.replay = new Replay();
    this.track = make("div");
    put(root, this.caption(), this.picks.root, this.track, this.foot());
    this.pointer = new Pointer(this, new TokenCard(root, (fact, text) => this.goOn(fact, text)));
    document.addEventListener("lens:prompt", ({ detail }) => this.asks(detail));
    document.addEventListener("lens:busy", ({ detail }) => this.say(detail ?? this.sentence));
    document.addEventListener("click", ({ target }) => target.closest?.("#run, #follow") && this.await());
    const laneOf = (node) => node.closest?.(".lens-lane")?.dataset.lane;
    root.addEventListener("mouseover", ({ target }) => this.look({ lane: laneOf(target) }));
    const page = document.documentElement.style;
    this.above = new ResizeObserver(([{ borderBoxSize }]) => {
      page.setProperty("--lens-top", `${borderBoxSize[0].blockSize}px`);
    });
    if (recorded) recordedRun(recorded, { hear: (messages) => this.play(messages) });
  }

  get shown() {
    return this.recorded ?? this.lanes;
  }

  // Above the lanes: what a band is, in an example, and the switch for details, which the browser remembers.
  caption() {
    this.answers = make("p", "lens-answers");
    const said = make("p", "lens-caption-said", "Each colour band came out of one forward pass");
    const tokens = ["The", " sky", " is"].map((piece) => tokenNode(piece, { kind: "clean", sure: 1 }));
    const meaning = make("span", "lens-note", " three tokens, two proposed by masks (m)");
    const sample = put(make("span", "lens-sample"), bandNode(2, tokens, { mask: 2 }), meaning);
    const legend = make("p", "lens-legend lens-note", `${letterWords()}. ${LEGEND}`);
    const show = (on) => {
      keep(DETAILS_KEY, on ? "on" : "off");
      this.root.classList.toggle("details", on);
    };
    const box = checkbox(kept(DETAILS_KEY) === "on", () => show(box.checked), { role: "switch" });
    show(box.checked);
    const label = put(make("label", "lens-row lens-switch"), box, make("span", "", "Details"));
    return put(make("div", "lens-row lens-caption"), said, sample, label, this.answers, legend);
  }

  // Always in view: the status, where the texts part, the ways on once the run is over, and its passes.
  foot() {
    this.status = status("lens-status");
    this.parting = make("p", "lens-parting lens-note");
    const begin = () => announce("lens:step", { run: this.root.dataset.run, ...this.place });
    const step = button("lens-tool lens-step-through", "Step through this run", begin);
    const share = button("lens-tool lens-share", "Share", () => this.share(), { title: SHARED_AS });
    const line = put(make("div", "lens-status-line"), this.status, this.parting, share, step);
    return (this.board = put(make("div", "lens-stack lens-board"), line, this.replay.root));
  }

  // Lanes are introduced again and again while they load, and not while a run is followed; answers stay in view.
  read(value) {
    const messages = messagesOf(value);
    const { lanes = [] } = messages[0] ?? {};
    const wrote = this.lanes.list.some(({ passes }) => passes.length);
    if (wrote && !this.run && lanes.length === this.lanes.views.size) {
      this.changed = settingsOf(lanes) !== this.chosen;
      this.say(messages.at(-1).state === "failed" ? messages.at(-1).sentence : this.sentence);
      return this.asks(promptNow());
    }
    for (const message of messages) {
      if (message.kind === "follow" || message.kind === "refusal") clearTimeout(this.unanswered);
      const known = message.kind === "open" && message.id === this.root.dataset.run;
      if (!known && (!this.run || message.kind === "follow")) this.hear(message);
    }
    this.picture();
  }

  hear(message) {
    if (this[message.kind]) super.hear(message);
    else this.lanes.hear(message);
  }

  // Somebody has asked for a run: say so if nobody answers.
  await() {
    clearTimeout(this.unanswered);
    this.unanswered = setTimeout(() => this.say(UNANSWERED), PATIENCE);
  }

  // A run that is over stays so, with its ways on.
  refusal({ sentence }) {
    if (!OVER.includes(this.root.dataset.state)) return super.refusal({ sentence });
    this.say(sentence);
    this.root.dataset.refused = "";
  }

  begin(id) {
    this.root.dataset.run = id;
    Object.assign(this, { asked: promptNow(), changed: false, scrolled: null });
    this.asks(this.asked);
    super.begin();
    this.leaveRecorded();
  }

  // Draw once for all lines that came together.
  picture() {
    this.lanes.flush();
    this.drawing ??= setTimeout(() => requestAnimationFrame(() => this.draw()), DRAWING_GAP);
    if (!this.unseen) return;
    this.unseen = false;
    this.draw();
    this.replay.show();
  }

  open({ id, lanes, recorded = false }) {
    this.pointer.leave();
    const chosen = settingsOf(lanes);
    if (this.chosen && this.chosen !== chosen) this.leaveRecorded();
    if (id !== this.followed) {
      Object.assign(this, { asked: undefined, changed: false }); // these lanes have answered nothing yet
      this.answers.textContent = "";
    }
    this.chosen = chosen;
    this.lanes = new LaneSet(lanes, this.facts, recorded);
    this.looked = { lane: this.looked.lane };
    if (!this.recorded) this.fit();
    this.root.dataset.run = id;
  }

  // Put the lanes in view, at the end of what they have written and below the bar, which may come after the stage.
  fit() {
    const [{ over }, bar] = [this.replay, document.querySelector(".lens-controls")];
    if (bar) this.above.observe(bar);
    this.track.replaceChildren(this.shown.track);
    this.picks.open(this.shown);
    this.replay.open(this.shown);
    this.replay.ended(over);
    this.say(this.sentence);
  }

  look({ lane, number }) {
    if (!this.lanes.views.has(lane)) return;
    const before = lane === this.looked.lane ? this.looked.number : null;
    this.looked = { lane, number: number ?? before };
  }

  state({ state, sentence }) {
    this.root.dataset.state = state;
    const wrote = this.lanes.list.every(({ passes }) => passes.length);
    const over = wrote && (state === "done" || state === "stopped");
    document.querySelector(".lens-stop-or-follow")?.classList.toggle("over", over);
    if (!BEFORE.has(state)) this.leaveRecorded();
    if (!this.recorded) this.replay.ended(OVER.includes(state));
    this.unseen = this.lanes.recorded && state === "done";
    super.state({ state, sentence });
  }

  say(sentence) {
    super.say(sentence);
    delete this.root.dataset.refused;
    this.part();
  }

  part() {
    this.parting.textContent = this.parting.title = this.recorded ? "Recorded run of SmolLM2 135M" : this.lanes.parting;
  }

  // Draw the parts that may lag a little behind the text.
  draw() {
    this.drawing = null;
    this.lanes.draw();
    this.part();
    if (!this.recorded) this.replay.draw();
    this.keepUp();
  }

  // Keep the ends of texts that are being written in view, between the bar and the board, until the reader scrolls.
  keepUp() {
    if (![null, window.scrollY].includes(this.scrolled) || this.root.dataset.state !== "running") return;
    const ends = this.lanes.list.map(({ passes }) => passes.at(-1)?.nodes[0].getBoundingClientRect());
    const seen = ends.filter((end) => end && end.left >= 0 && end.left < innerWidth); // a phone shows one lane
    if (!seen.length) return; // and the browser may still scroll, since these lanes are shorter than the last
    const ceiling = document.querySelector(".lens-controls")?.getBoundingClientRect().bottom ?? 0;
    const above = seen.every(({ top }) => top < ceiling);
    const below = Math.max(0, Math.max(...seen.map(({ bottom }) => bottom)) - this.board.getBoundingClientRect().top);
    window.scrollBy(0, above ? this.track.getBoundingClientRect().top - ceiling : below);
    this.scrolled = window.scrollY;
  }

  // What stands below a prompt and settings is their answer, or says of what it is one.
  asks(prompt) {
    if (this.recorded && prompt !== this.recorded.prompt) this.leaveRecorded();
    const other = this.asked !== undefined && prompt !== this.asked;
    const words = other ? `are to “${oneLine(this.asked)}”` : this.changed ? "were written with other settings" : "";
    if (words) this.pointer.leave();
    this.answers.textContent = words && `The answers below ${words}`;
  }

  // The lane and the pass that one looks at: where the replay was stopped, else the last token that was looked at.
  get place() {
    const { lane = null, number = null } = this.looked;
    const view = this.lanes.views.get(lane);
    return { lane, number: view?.gone ? view.passes[view.gone - 1]?.number : number };
  }

  // Another run of the prompt, in which all answers start with this text instead of a token and what followed it.
  goOn({ lane, message, place }, text) {
    this.pointer.leave();
    handFocus("#run");
    this.await();
    this.branch(this.lanes.views.get(lane.key).before(message.start + place) + text);
  }

  async share() {
    const run = keeper.open(this.root.dataset.run);
    if (run) this.say((await shareFile(run)) || this.sentence);
  }

  // Play a recorded run, unless something else has begun or is asked.
  play([{ prompt, lanes }, ...messages]) {
    if ((promptNow() || prompt) !== prompt || !BEFORE.has(this.root.dataset.state ?? "idle")) return;
    this.recorded = new LaneSet(lanes, this.facts, true);
    this.recorded.prompt = prompt;
    const told = messages.filter(({ kind }) => kind !== "verdict"); // which takes a line above the text
    for (const message of told) this.recorded.hear(message);
    this.recorded.flush();
    this.recorded.draw();
    this.fit();
    this.replay.ended(true);
    this.replay.show();
  }

  leaveRecorded() {
    if (!this.recorded) return;
    this.pointer.leave();
    this.recorded = null;
    this.replay.over = false;
    this.fit();
  }
}

const settingsOf = (lanes) => JSON.stringify(lanes.map(({ settings }) => settings));

const promptNow = () => document.querySelector("#prompt textarea")?.value;

export function mountStage({ element, props, watch, submit, tell }) {
  const branch = (start) => tell("select", start);
  const stage = new Stage(element.querySelector(".lens-stage"), props.recorded, submit, branch);
  stage.read(props.value);
  // In a task of its own: Gradio has done enough in this one.
  watch("value", () => setTimeout(() => stage.read(props.value)));
}
