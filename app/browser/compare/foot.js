// At the foot of the stage, always in view: the one status line, where the texts part, the way to Step through, and the
// passes of all lanes on one axis of time.

import { button, make, put, status } from "../shared/dom.js";

const SAME = " wrote the same text.";
const SAME_BOTH = "Same text in both lanes.";

export class StageFoot {
  constructor(replay, onStep) {
    this.status = status("lens-status");
    this.parting = make("p", "lens-parting");
    const step = button("lens-tool lens-step-through", "Step through this run", onStep); // shown once the run is over
    const line = put(make("div", "lens-status-line"), this.status, this.parting, step);
    this.root = put(make("div", "lens-board"), line, replay.root);
  }

  // `lanes` are the views by key.
  open(lanes) {
    this.lanes = lanes;
    this.partings = new Map();
    this.baseline = null;
    const first = [...lanes.values()].find(({ lane }) => lane.family === "ar") ?? [...lanes.values()][0];
    if (first) this.compare(first.lane.key);
    this.say();
  }

  // The question that a recorded run answers, or nothing.
  recorded(prompt) {
    this.about = prompt && ["Recorded run of SmolLM2 135M", `: “${prompt}”`];
    this.say();
  }

  say() {
    const [first, rest = ""] = this.about || this.compared();
    this.parting.replaceChildren(first, make("span", "lens-roomy", rest));
    this.parting.title = this.parting.textContent;
  }

  compared() {
    const found = [...this.partings.values()];
    const alike = found.length > 1 && found.length === this.lanes.size - 1 && found.every((each) => each.endsWith(SAME));
    if (this.lanes?.size === 2 && found[0] === SAME_BOTH) return ["Same text", " in both lanes."];
    return alike ? ["Same text", " in all lanes."] : [found.join(" ")];
  }

  // A ratio for each lane but the baseline.
  compare(baseline) {
    if (baseline === this.baseline) return;
    this.baseline = baseline;
    const base = this.lanes.get(baseline);
    for (const [key, view] of this.lanes) {
      view.counters.show({ isBaseline: key === baseline, baseline: base.name, ratio: key === baseline ? 1 : null });
      if (key !== baseline) view.ratio(null, base.lane.title);
    }
  }

  speedup({ ratios, baseline }) {
    this.compare(baseline);
    for (const [key, ratio] of Object.entries(ratios)) {
      this.lanes.get(key).ratio(ratio, this.lanes.get(baseline).lane.title);
      this.lanes.get(key).counters.show({ ratio });
    }
  }

  // Two texts part, each at its own token, or with `tokens` null are the same.
  part(key, baseline, tokens) {
    const [one, other] = [key, baseline].map((each) => each.toUpperCase());
    const several = this.lanes.size > 2;
    const pair = several ? `${one} and ${other}` : "Texts";
    let sentence = several ? `${pair}${SAME}` : SAME_BOTH;
    if (tokens) {
      const [here, there] = [tokens[key] + 1, tokens[baseline] + 1];
      const place = here === there ? `token ${here}` : `token ${there} of ${other}, ${here} of ${one}`;
      sentence = `${pair} first differ at ${place}.`;
    }
    this.partings.set(key, sentence);
    this.say();
  }
}
