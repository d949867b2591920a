// "What if τ were …": a slider that recolours what each pass would have accepted, from the recorded scores alone.

class Trial {
  constructor(onTry) {
    this.onTry = onTry;
    this.threshold = null;
    this.root = make("div", "step-trial-panel");
    this.label = put(make("label", "step-trial-label"), make("span", "", "What if τ were"));
    this.range = make("input", "step-range");
    this.range.type = "range";
    this.reading = make("output", "step-trial-reading");
    this.range.addEventListener("input", () => this.set(Number(this.range.value)));
    this.back = make("button", "step-button", "As recorded");
    this.back.type = "button";
    this.back.addEventListener("click", () => this.set(null));
    this.news = make("p", "step-trial-news");
    put(this.label, this.range);
    put(this.root, this.label, this.reading, this.back, this.news);
  }

  open(lane) {
    this.lane = lane;
    const entropy = lane.lane.settings.score === "entropy";
    Object.assign(this.range, { min: 0, max: entropy ? Math.ceil(lane.top) : 1, step: 0.01 });
    for (const node of [this.label, this.reading]) node.hidden = !lane.byThreshold;
    this.start = lane.passes.find(({ row, counted }) => counted && row.threshold !== null)?.row.threshold ?? 1;
    this.set(null);
  }

  set(threshold) {
    this.threshold = threshold;
    this.range.value = threshold ?? this.start;
    this.back.hidden = threshold === null;
    this.reading.textContent = decimals(threshold ?? this.start, 2);
    this.news.textContent = this.sentence();
    this.onTry(threshold);
  }

  sentence() {
    const { lane } = this.lane;
    if (!this.lane.byThreshold) return thresholdless(lane);
    if (this.threshold === null) return "Move it to see what the recorded scores would have let through.";
    const { then, now, passes, changed } = wouldHave(lane, this.threshold);
    const rate = (tokens) => decimals(tokens / passes, 2);
    return `${changed} of ${passes} passes would differ: ${rate(then)} tokens per forward instead of ${rate(now)}. From the recorded scores alone: after the first difference a real run would read other tokens, and go on in its own way.`;
  }
}
