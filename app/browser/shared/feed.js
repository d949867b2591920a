// The live run as it comes: what it has written, and when to draw it.

import { ours } from "./dom.js";
import { hearLines } from "./messages.js";

export const OVER = ["done", "stopped", "failed"]; // states of a run after which nothing comes
const DRAWING_GAP = 250; // milliseconds

const RECONNECTING = "The connection was lost. Reconnecting …";
const LOST = "The server no longer has this run. Start it again.";

// The base of views that draw a live run, message by message: each kind of message has a method of its name. The value
// of a component says which run to follow, or why none starts. The lines of a run come several at once, until another
// one is followed or it is over; the browser connects again by itself and says how many lines it has. A view has
// `status`, the element of its sentence.
export class RunView {
  constructor(root) {
    this.root = root;
    this.sentence = ""; // of the state, which comes back once there is a connection again
    this.followed = null; // the run whose lines came last
    this.run = null; // the same while more may come
    this.source = null;
    addEventListener("pagehide", ({ persisted }) => {
      if (this.run && !persisted) navigator.sendBeacon(ours(`runs/${this.run}/leave`));
    });
  }

  read(value) {
    hearLines(value, (message) => this.hear(message));
  }

  hear(message) {
    this[message.kind]?.(message);
  }

  follow({ id }) {
    if (this.followed === id) return; // the value was read twice
    this.followed = id;
    this.begin(id);
    this.listen(id);
  }

  // Hear the lines of this run and of no other, null for none.
  listen(run) {
    this.source?.close();
    this.run = run;
    if (!run) return;
    const source = new EventSource(ours(`runs/${run}/events`));
    this.source = source;
    source.onopen = () => this.say(this.sentence);
    source.onmessage = ({ data }) => {
      if (run !== this.run) return;
      hearLines(data, (message) => this.hear(message));
      this.picture();
    };
    source.onerror = () => {
      if (run !== this.run) return;
      if (source.readyState !== EventSource.CLOSED) this.say(RECONNECTING);
      else this.state({ state: "failed", sentence: LOST });
    };
  }

  state({ state, sentence }) {
    this.sentence = sentence;
    this.say(sentence);
    const { run } = this;
    if (!run || !OVER.includes(state)) return;
    this.listen(null);
    this.ended(run);
  }

  say(sentence) {
    this.status.textContent = sentence;
  }

  refusal({ sentence }) {
    this.state({ state: "failed", sentence });
  }

  // For views to fill: before the first line of a run, after lines that came at once, and when no more will come.
  begin() {}
  picture() {}
  ended() {}
}

// Draws at most four times a second, in an animation frame, and once more after the last wish.
export class FrameTimer {
  constructor(draw) {
    this.draw = draw;
    this.due = false;
    this.last = -Infinity;
  }

  ask() {
    if (this.due) return;
    this.due = true;
    const rest = Math.max(0, this.last + DRAWING_GAP - performance.now());
    setTimeout(() => requestAnimationFrame(() => this.now()), rest);
  }

  now() {
    this.due = false;
    this.last = performance.now();
    this.draw();
  }
}
