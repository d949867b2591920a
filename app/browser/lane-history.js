// The threshold of each pass as a line of steps, under the text. One token per pass is a level of its own, on top.

const ONE_TOKEN_LEVEL = 8; // heights are per cent of the picture, from the top
const HIGHEST_LEVEL = 30;
const LOWEST_LEVEL = 92;
const MOST_SPOKEN = 8;

class ThresholdHistory {
  constructor(lane) {
    this.entropy = lane.score === "entropy";
    this.turns = []; // [pass, threshold], where the threshold became another one
    this.passes = 0;
    this.drawn = 0;
    this.root = make("figure", "lens-history");
    this.root.hidden = true;
    this.where = make("span", "lens-history-where");
    this.line = shape("path", { class: "lens-history-line", d: "" });
    this.grid = shape("path", { class: "lens-history-grid", d: "" });
    this.picture = shape("svg", { class: "lens-history-picture", preserveAspectRatio: "none", "aria-hidden": "true" });
    this.picture.append(this.grid, this.line);
    this.top = make("span", "lens-history-level");
    this.bottom = make("span", "lens-history-level");
    this.single = make("span", "lens-history-level", "1 token");
    this.now = make("span", "lens-history-now");
    this.plot = put(make("div", "lens-history-plot"), this.picture, this.single, this.top, this.bottom, this.now);
    const title = put(make("figcaption", "lens-history-title"), make("span", "", "Threshold τ over the passes"), this.where);
    this.spoken = make("p", "lens-spoken");
    put(this.root, title, this.plot, this.spoken);
    this.plot.setAttribute("aria-hidden", "true");
  }

  add(pass, threshold) {
    if (this.turns.length === 0 || this.turns.at(-1)[1] !== threshold) this.turns.push([pass, threshold]);
    this.passes = pass;
  }

  draw() {
    if (this.passes === this.drawn) return;
    this.drawn = this.passes;
    const [low, high] = this.range();
    const level = (threshold) =>
      threshold === null
        ? ONE_TOKEN_LEVEL
        : HIGHEST_LEVEL + ((high - threshold) / (high - low)) * (LOWEST_LEVEL - HIGHEST_LEVEL);
    const steps = this.turns.map(([pass, threshold], turn) => `${turn ? "V" : "M0 "}${level(threshold)}H${this.until(turn) || pass}`);
    this.picture.setAttribute("viewBox", `0 0 ${this.passes} 100`);
    this.line.setAttribute("d", steps.join(""));
    this.grid.setAttribute("d", `M0 ${HIGHEST_LEVEL}H${this.passes}M0 ${LOWEST_LEVEL}H${this.passes}`);
    const current = this.turns.at(-1)[1];
    this.now.textContent = current === null ? "1 token" : `τ ${current.toFixed(2)}`;
    this.now.style.top = `${level(current)}%`;
    this.label(this.top, high.toFixed(2), HIGHEST_LEVEL);
    this.label(this.bottom, low.toFixed(2), LOWEST_LEVEL);
    this.label(this.single, "1 token", ONE_TOKEN_LEVEL);
    this.single.hidden = this.turns.every(([, threshold]) => threshold !== null);
    this.where.textContent = `pass ${this.passes}`;
    this.spoken.textContent = this.inWords();
    this.root.hidden = false;
  }

  // The last pass of a turn's threshold.
  until(turn) {
    return turn + 1 < this.turns.length ? this.turns[turn + 1][0] - 1 : this.passes;
  }

  range() {
    const known = this.turns.map(([, threshold]) => threshold).filter((threshold) => threshold !== null);
    if (this.entropy) return [0, Math.max(1, ...known)];
    return [Math.min(...known) < 0.5 ? 0 : 0.5, 1];
  }

  label(node, text, level) {
    node.textContent = text;
    node.style.top = `${level}%`;
  }

  inWords() {
    const last = this.turns.slice(-MOST_SPOKEN).map(([pass, threshold]) => `${thresholdName(threshold)} from pass ${pass}`);
    const earlier = this.turns.length - last.length;
    return `${earlier ? `After ${earlier} earlier changes: ` : ""}${last.join(", ")}.`;
  }
}
