// Draws at most four times a second, in an animation frame, and once more after the last wish.

const DRAWING_GAP = 250; // milliseconds

class Beat {
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
