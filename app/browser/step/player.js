// Moves through the passes: a bar for each, a native range over them, buttons, keys, and playing.

import { button, make, put, shape } from "../shared/dom.js";

const A_PASS = 1000; // milliseconds
const MOVES = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };

export class Player {
  constructor(onMove) {
    this.onMove = onMove;
    this.root = make("div", "step-player");
    this.bars = shape("svg", { class: "step-bars", preserveAspectRatio: "none", "aria-hidden": "true" });
    this.range = make("input", "step-range", "", { type: "range", min: 0, step: 1, "aria-label": "Pass" });
    this.range.addEventListener("input", () => this.go(Number(this.range.value)));
    const named = (name) => ({ title: name, "aria-label": name });
    this.play = button("lens-tool primary step-play", "▶", () => this.toggle(), named("Play"));
    const back = button("lens-tool", "‹", () => this.go(this.index - 1), named("One pass back"));
    const on = button("lens-tool", "›", () => this.go(this.index + 1), named("One pass on"));
    this.where = make("output", "step-where");
    const track = put(make("div", "step-track"), this.bars, this.range);
    put(this.root, put(make("div", "lens-row step-buttons"), back, this.play, on), track, this.where);
  }

  open(lane, index) {
    this.pause();
    this.lane = lane;
    this.index = 0;
    this.range.max = lane.passes.length - 1;
    this.draw(null);
    this.go(index);
  }

  // A bar for each pass: as high as the tokens that it accepted, and an outline of what `threshold` would have.
  draw(threshold) {
    const { passes } = this.lane;
    const height = ({ row }) => (this.lane.thresholdless ? row.accepted : row.proposals.length);
    const tallest = passes.reduce((most, pass) => Math.max(most, height(pass)), 1);
    this.bars.setAttribute("viewBox", `0 0 ${passes.length} ${tallest}`);
    const bars = passes.map(({ row, counted, index }) => {
      const high = counted ? row.accepted : 0.15;
      return shape("rect", { class: "step-tick", x: index + 0.12, y: tallest - high, width: 0.76, height: high });
    });
    const marks = passes.map(({ index }) => {
      const high = threshold === null ? 0 : this.lane.wouldAccept(index, threshold);
      return shape("path", { class: "step-what-if-tick", d: high ? `M${index} ${tallest - high}h1` : "" });
    });
    this.bars.replaceChildren(...bars, ...marks);
    this.bars.children[this.index]?.classList.add("here");
  }

  go(index) {
    const last = this.lane.passes.length - 1;
    this.bars.children[this.index]?.classList.remove("here");
    this.index = Math.min(last, Math.max(0, index));
    this.bars.children[this.index].classList.add("here");
    const { name, counted } = this.lane.passes[this.index];
    this.range.value = this.index;
    this.range.setAttribute("aria-valuetext", `${name}, step ${this.index + 1} of ${last + 1}`);
    this.where.textContent = counted ? `${name} of ${this.lane.writing.length}` : name;
    if (this.index === last) this.pause();
    this.onMove(this.index);
  }

  get playing() {
    return this.timer !== null;
  }

  toggle() {
    if (this.playing) return this.pause();
    if (this.index === this.lane.passes.length - 1) this.go(0);
    this.set("❚❚", "Pause");
    this.timer = setInterval(() => (this.root.isConnected ? this.go(this.index + 1) : this.pause()), A_PASS);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.set("▶", "Play");
  }

  set(text, name) {
    this.play.textContent = text;
    this.play.title = name;
    this.play.setAttribute("aria-label", name);
  }

  // Arrow keys and space, unless something that has a use for them is focused.
  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.target !== this.range && event.target.closest("select, textarea, input")) return;
    if (event.key === " " && !event.target.closest("button, summary, a")) this.toggle();
    else if (event.key in MOVES) this.go(this.index + MOVES[event.key]);
    else return;
    event.preventDefault();
  }
}
