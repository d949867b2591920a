// The lanes of one run, and what messages about them mean. A live run and a recording are drawn alike; only their lines
// come from elsewhere (shared/feed.js).

import { button, make, put } from "../shared/dom.js";
import { LaneView } from "./lane.js";

const SAME = "the same text";
const LETTERS = "ABCD"; // of the lanes by their place: those of a recorded run may have any key

export class LaneSet {
  // `cards` introduce the lanes; `facts` gets what each token stands for; `recorded` says that clocks count passes.
  constructor(cards = [], facts = new WeakMap(), recorded = false) {
    this.recorded = recorded;
    const named = cards.map((card, place) => ({ ...card, letter: LETTERS[place] }));
    this.views = new Map(named.map((card) => [card.key, new LaneView(card, facts, recorded)]));
    this.track = make("div", `lens-lanes${recorded ? " lens-recorded" : ""}`);
    this.track.append(...[...this.views.values()].map(({ root }) => root));
    this.partings = new Map();
    this.baseline = this.list.find(({ lane }) => lane.family === "ar") ?? this.list[0];
  }

  get list() {
    return [...this.views.values()];
  }

  hear(message) {
    const own = message.lane !== undefined && message.kind !== "agreement";
    const hears = own ? this.views.get(message.lane) : this;
    hears?.[message.kind]?.(message);
  }

  // Draw what has come since the last time, each lane beside the baseline.
  flush() {
    for (const view of this.list) view.flush();
    for (const view of this.list) view.pays(this.baseline);
  }

  draw() {
    for (const view of this.list) view.draw(this.baseline);
  }

  speedup({ ratios, baseline }) {
    this.baseline = this.views.get(baseline);
    for (const [key, ratio] of Object.entries(ratios)) {
      this.views.get(key).alone = ratio === null;
      this.views.get(key).ratio(ratio, this.baseline.lane.title);
    }
  }

  agreement({ lane, baseline, tokens, whole }) {
    const { title } = this.views.get(baseline).lane;
    this.views.get(lane).agrees("Same text", ` as ${title}${whole ? "" : " so far"}`, tokens);
  }

  // Marks the first tokens in which two lanes differ, in both.
  difference({ tokens, baseline }) {
    const several = this.views.size > 2;
    const base = this.views.get(baseline);
    for (const [key, view] of this.views) {
      if (key === baseline || !(key in tokens)) continue;
      view.differs(tokens[key], several ? base.lane.letter : "");
      base.differs(tokens[baseline], several ? view.lane.letter : "");
      view.agrees();
      this.part(view, base, tokens);
    }
  }

  same({ lanes: [, ...others] }) {
    for (const key of others) this.partings.set(this.views.get(key), SAME);
  }

  // `tokens` are the places at which the texts part. With other weights, they do so without any threshold.
  part(view, base, tokens) {
    const pair = this.views.size > 2 ? `${view.lane.letter} and ${base.lane.letter}` : "Texts";
    const [here, there] = [tokens[view.lane.key] + 1, tokens[base.lane.key] + 1];
    const apart = `token ${there} of ${base.lane.letter}, ${here} of ${view.lane.letter}`;
    const place = here === there ? `token ${here}` : apart;
    const weights = view.lane.checkpoint === base.lane.checkpoint ? "" : ": other weights";
    const why = view.lane.settings.temperature || base.lane.settings.temperature ? ": drawn at random" : weights;
    this.partings.set(view, `${pair} first differ at ${place}${why}.`);
  }

  get parting() {
    const found = this.list.flatMap((view) => (this.partings.has(view) ? [[view, this.partings.get(view)]] : []));
    if (found.length && found.length === this.views.size - 1 && found.every(([, said]) => said === SAME)) {
      return `Same text in ${this.views.size > 2 ? "all" : "both"} lanes.`;
    }
    const same = ({ lane }) => `${lane.letter} and ${this.baseline.lane.letter} wrote the same text.`;
    const said = ([view, words]) => (words === SAME ? same(view) : words);
    return found.map(said).join(" ");
  }
}

// On a phone one lane is seen at a time: a button for each.
export class LanePicks {
  // `onPick` hears the key of the lane that a person picks.
  constructor(onPick) {
    this.onPick = onPick;
    this.buttons = make("div", "lens-row lens-picks", "", { role: "group", "aria-label": "Lane in view" });
    this.root = put(make("div", "lens-pick"), this.buttons);
  }

  open(set) {
    this.lanes = set.list;
    this.buttons.replaceChildren(...this.lanes.map((view) => this.button(view)));
    const usual = this.lanes.findIndex(({ lane }) => lane.family !== "ar");
    const view = this.lanes[this.place] ?? this.lanes[usual] ?? this.lanes[0];
    if (view) this.pick(view);
  }

  button(view) {
    return button(`lens-tool lens-pick-one lens-lane-${view.lane.family}`, view.lane.title, () => {
      this.place = this.lanes.indexOf(view);
      this.pick(view);
      this.onPick(view.lane.key);
    });
  }

  pick(view) {
    this.lanes.forEach((each, place) => {
      each.root.classList.toggle("picked", each === view);
      this.buttons.children[place].setAttribute("aria-pressed", String(each === view));
    });
  }
}
