// At the foot of the stage, always in view: the one status line, where the texts part, the way to Step through, and the
// passes of all lanes on one axis of time, where a run that is over can be seen again.

import { button, calm, make, put, shape, status } from "../shared/dom.js";
import { decimals } from "../shared/tokens.js";

const SAME = " wrote the same text.";
const SAME_BOTH = "Same text in both lanes.";
const STEP = 50; // milliseconds between two pictures
const PASS = 0.12; // seconds in which the mean pass of the slowest lane is watched
const ROW = 10; // the height of a lane in the chart, in its own units
const STEPS = 1000; // of the range

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

// A run that is over, again: every pass of every lane on one axis of model time, each as wide as it took, and a range over
// them that a hand or a clock moves. The text keeps its place: what comes later is only unseen.
export class Replay {
  // `moved` is called whenever another moment is shown.
  constructor(moved) {
    this.moved = moved;
    this.views = [];
    this.total = 0;
    this.at = 0;
    this.timer = null;
    this.over = false;
    this.play = button("lens-tool lens-play", "Play", () => (this.timer ? this.pause() : this.begin()));
    this.real = button("lens-tool lens-real", "Real time", () => this.begin(true));
    this.real.title = "Play it as fast as the models were: one second of model time a second";
    this.range = make("input", "lens-time", "", { "aria-label": "Model time of this run" });
    Object.assign(this.range, { type: "range", min: 0, max: STEPS, step: 1, value: STEPS });
    this.range.title = "Each tick is one pass, as wide as it took. The line before the first is the reading of the prompt.";
    this.range.addEventListener("input", () => {
      this.pause();
      this.seek((this.range.value / STEPS) * this.total);
    });
    this.chart = shape("svg", { class: "lens-chart", preserveAspectRatio: "none", "aria-hidden": "true" });
    this.line = shape("path", { class: "lens-chart-now", d: "" });
    this.names = make("div", "lens-chart-names");
    this.clock = make("output", "lens-clock");
    const track = put(make("div", "lens-track"), this.chart, this.range);
    this.root = put(make("div", "lens-replay"), put(make("div", "lens-replay-buttons"), this.play, this.real), this.names, track, this.clock);
  }

  // `counted` says that the clock of the lanes counts passes, not seconds.
  open(lanes, counted = false) {
    this.pause();
    this.counted = counted;
    this.real.hidden = counted;
    this.views = [...lanes.values()];
    this.total = this.at = 0;
    this.drawn = null;
    this.names.replaceChildren(...this.views.map(({ name, lane }) => make("span", `lens-lane-${lane.family}`, name.split(" ")[0])));
    const ticks = (kind) => this.views.map(({ lane }) => shape("path", { class: `lens-tick ${kind} lens-lane-${lane.family}` }));
    Object.assign(this, { prompts: ticks("prompt"), even: ticks("even"), odd: ticks("odd") });
    this.chart.replaceChildren(...this.prompts, ...this.even, ...this.odd, this.line);
    this.ended(false);
    this.draw();
  }

  // Note whether the run is over, so that it can be played.
  ended(over) {
    this.over = over && this.views.some(({ passes }) => passes.length);
    for (const control of [this.play, this.real, this.range]) control.disabled = !this.over;
    if (this.over) this.draw();
  }

  draw() {
    const drawn = this.views.map(({ passes }) => passes.length).join();
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    this.total = Math.max(0, ...this.views.map(({ clock }) => clock));
    this.at = this.total;
    this.range.value = STEPS;
    this.chart.setAttribute("viewBox", `0 0 ${this.total || 1} ${ROW * this.views.length}`);
    this.views.forEach(({ passes }, row) => {
      const ticks = { 1: [], 0: [] };
      for (const { at, seconds, number } of passes) {
        const wide = seconds * 0.86;
        ticks[number % 2].push(`M${(at - seconds).toFixed(5)} ${row * ROW + 1}h${wide.toFixed(5)}v${ROW - 2}h-${wide.toFixed(5)}z`);
      }
      const [{ at = 0, seconds = 0 } = {}] = passes;
      const read = at - seconds;
      this.prompts[row].setAttribute("d", read > 0 ? `M0 ${row * ROW + ROW / 2 - 1}h${read.toFixed(5)}v2H0z` : "");
      this.odd[row].setAttribute("d", ticks[1].join(""));
      this.even[row].setAttribute("d", ticks[0].join(""));
    });
    this.tell();
  }

  tell() {
    const [at, total] = [this.at, this.total].map((value) => decimals(value, this.counted ? 0 : 2));
    this.clock.textContent = this.total ? (this.counted ? `pass ${at} of ${total}` : `${at} s of ${total} s model time`) : "";
    this.range.setAttribute("aria-valuetext", this.clock.textContent);
    this.line.setAttribute("d", this.at < this.total ? `M${this.at} 0V${ROW * this.views.length}` : "");
  }

  seek(at) {
    this.at = Math.min(this.total, Math.max(0, at));
    for (const view of this.views) view.showUntil(this.at);
    this.tell();
    this.moved();
  }

  // Unasked, for those who do not mind motion; the others see the whole.
  show() {
    if (!calm()) this.begin();
  }

  // From the start, or on from where it was paused.
  begin(real = false) {
    this.pause();
    if (!this.over) return;
    this.draw();
    const slowest = this.views.reduce((most, view) => (view.passes.length > most.passes.length ? view : most));
    const speed = real ? 1 : slowest.clock / slowest.passes.length / PASS;
    const from = this.at < this.total && !real ? this.at : 0;
    const began = performance.now();
    this.play.textContent = "Pause";
    this.timer = setInterval(() => {
      this.seek(from + (speed * (performance.now() - began)) / 1000);
      this.range.value = Math.round((this.at / this.total) * STEPS);
      if (this.at >= this.total) this.pause();
    }, STEP);
    this.seek(from);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.play.textContent = "Play";
  }
}
