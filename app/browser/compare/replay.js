// A run that is over, again: every pass of every lane on one axis of model time, each as wide as it took, and a range
// over them that a hand or a clock moves. The text keeps its place: what comes later is only unseen.

import { button, calm, make, put, shape } from "../shared/dom.js";
import { decimals } from "../shared/tokens.js";

const STEP = 50; // milliseconds between two pictures
const PASS = 0.12; // seconds in which the mean pass of the slowest lane is watched
const ROW = 10; // the height of a lane in the chart, in its own units
const STEPS = 1000; // of the range
const MEANING =
  "Each tick is one pass, and its width is its time. The line before the first tick is the reading of the prompt.";

export class Replay {
  constructor() {
    this.play = button("lens-tool lens-play", "Play", () => (this.timer ? this.pause() : this.begin()));
    this.real = button("lens-tool", "Real time", () => this.begin(true));
    this.real.title = "Play it at the speed at which the models wrote";
    const ends = { type: "range", min: 0, max: STEPS, value: STEPS };
    this.range = make("input", "lens-time", "", { ...ends, title: MEANING, "aria-label": "Model time of this run" });
    this.range.addEventListener("input", () => {
      this.pause();
      this.seek((this.range.value / STEPS) * this.total);
    });
    this.chart = shape("svg", { class: "lens-chart", preserveAspectRatio: "none", "aria-hidden": "true" });
    this.line = shape("path", { class: "lens-chart-now", d: "" });
    this.names = make("div", "lens-chart-names");
    this.clock = make("output", "lens-clock lens-note");
    const track = put(make("div", "lens-track"), this.chart, this.range);
    const buttons = put(make("div", "lens-row"), this.play, this.real);
    this.root = put(make("div", "lens-replay"), buttons, this.names, track, this.clock);
    this.open({ list: [], recorded: false });
  }

  open({ list, recorded }) {
    this.pause();
    this.counted = recorded; // the clock of the lanes counts passes, not seconds
    this.real.hidden = recorded;
    this.views = list;
    this.total = this.at = 0;
    this.drawn = null;
    this.names.replaceChildren(...this.views.map(({ lane }) => make("span", `lens-lane-${lane.family}`, lane.letter)));
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
    this.chart.replaceChildren(...this.views.flatMap(ticks), this.line);
    this.tell();
  }

  tell() {
    const [at, total] = [this.at, this.total].map((value) => decimals(value, this.counted ? 0 : 2));
    const where = this.counted ? `pass ${at} of ${total}` : `${at} s of ${total} s model time`;
    this.clock.textContent = this.total ? where : "";
    this.range.setAttribute("aria-valuetext", this.clock.textContent);
    this.line.setAttribute("d", this.at < this.total ? `M${this.at} 0V${ROW * this.views.length}` : "");
  }

  seek(at) {
    this.at = Math.min(this.total, Math.max(0, at));
    for (const view of this.views) view.showUntil(this.at);
    this.tell();
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

// The reading of the prompt and the passes of a lane, in a row of the chart.
function ticks({ passes, lane }, row) {
  const paths = { prompt: "", even: "", odd: "" };
  for (const { at, seconds, number } of passes) {
    const wide = (seconds * 0.86).toFixed(5);
    paths[number % 2 ? "odd" : "even"] += `M${(at - seconds).toFixed(5)} ${row * ROW + 1}h${wide}v${ROW - 2}h-${wide}z`;
  }
  const [{ at = 0, seconds = 0 } = {}] = passes;
  if (at > seconds) paths.prompt = `M0 ${row * ROW + ROW / 2 - 1}h${(at - seconds).toFixed(5)}v2H0z`;
  const name = (kind) => `lens-tick ${kind} lens-lane-${lane.family}`;
  return Object.entries(paths).map(([kind, d]) => shape("path", { class: name(kind), d }));
}
