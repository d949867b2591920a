// The live run as it comes: what it has written, and when to draw it.

import { ours } from "./dom.js";
import { hearLines } from "./messages.js";

export const OVER = ["done", "stopped", "failed"]; // states of a run after which nothing comes
const DRAWING_GAP = 250; // milliseconds

const RECONNECTING = "The connection was lost. Reconnecting …";
const LOST = "The server no longer has this run. Start it again.";

// Reads the lines of a live run, several at once, until somebody follows another one or none. The browser connects again
// by itself and says how many lines it has. `drawn` hears when several lines have been heard. `told` hears a sentence
// while there is no connection, and null once there is; `lost` hears why no more will come, and is to follow none then.
export class RunFeed {
  constructor({ hear, drawn = () => {}, told, lost }) {
    Object.assign(this, { hear, drawn, told, lost });
    this.run = null;
    this.source = null;
  }

  follow(run) {
    if (run === this.run) return;
    this.source?.close();
    this.source = null;
    this.run = run;
    if (run) this.connect(run);
  }

  connect(run) {
    const source = new EventSource(ours(`runs/${run}/events`));
    this.source = source;
    source.onopen = () => this.told(null);
    source.onmessage = ({ data }) => {
      if (run !== this.run) return;
      hearLines(data, this.hear);
      this.drawn();
    };
    source.onerror = () => {
      if (run !== this.run) return;
      if (source.readyState !== EventSource.CLOSED) return this.told(RECONNECTING);
      return this.lost(LOST);
    };
  }
}

// What draws a live run, message by message: each kind of message has a method of its name. The value of a component says
// which run to follow, or why none starts. A view has `status`, the element of its sentence, and a method `state`.
export class RunView {
  constructor(root, { drawn } = {}) {
    this.root = root;
    this.sentence = ""; // of the state, which comes back once there is a connection again
    this.feed = new RunFeed({
      hear: (message) => this.hear(message),
      drawn,
      told: (sentence) => this.say(sentence ?? this.sentence),
      lost: (sentence) => this.state({ state: "failed", sentence }),
    });
  }

  read(value) {
    hearLines(value, (message) => this.hear(message));
  }

  hear(message) {
    this[message.kind]?.(message);
  }

  say(sentence) {
    this.status.textContent = sentence;
  }

  refusal({ sentence }) {
    this.state({ state: "failed", sentence });
  }
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
