// The live run as it comes: what it has written, and when to draw it.

import { ours } from "../shared/dom.js";

const DRAWING_GAP = 250; // milliseconds

// Fetches what a live run has written, a picture at a time, until the run or its page goes on to something else. Where
// that fails, the value of the component brings the lines.
export class RunFeed {
  constructor(lines, drawn) {
    this.lines = lines;
    this.drawn = drawn;
    this.run = null;
  }

  follow(run) {
    if (run === this.run) return;
    this.run = run;
    if (run) this.next(run);
  }

  async next(run) {
    while (run === this.run) {
      const began = performance.now();
      const after = this.lines.heard;
      const answer = await this.ask(run, after);
      if (run !== this.run) return;
      if (!answer) return this.follow(null);
      if (answer.text) {
        this.lines.more(after, answer.text);
        this.drawn();
      }
      if (run !== this.run) return this.ask(run, this.lines.heard); // it has ended: nobody need send anything again
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, began + answer.again - performance.now())));
    }
  }

  // The lines behind the first `after`, and after how many milliseconds to ask again; null where there is no such run, or
  // something else answers for it.
  async ask(run, after) {
    try {
      const answer = await fetch(ours(`pictures/${run}?after=${after}`));
      const again = Number(answer.headers.get("x-lens-again"));
      return answer.status === 200 && again > 0 ? { text: await answer.text(), again } : null;
    } catch {
      return null;
    }
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
