// Another threshold for a recorded run: which tokens each pass would have accepted, by the recorded scores.

import { decoderOf, isCounted, isSurerWhenLower } from "../shared/decoders.js";
import { button, make, put } from "../shared/dom.js";
import { decimals } from "../shared/tokens.js";

const FILLED = "Another τ is not shown here: later passes would have read other tokens.";
const VERIFIED = "No threshold: a draft is kept only if it equals the model's own choice.";
const NEAR = "Another τ is not shown here: the run does not record how near a refused draft was to the best token.";
const OWN_RULE = "Another τ is not shown here: this decoder has a rule beside the threshold.";
const ONE_TOKEN = "No threshold: every pass proposes one token, and it is accepted.";

// The reason why no threshold decides in this lane, "" where one does.
export function thresholdless({ decoder, records }) {
  const { verifies } = decoderOf(decoder);
  if (records.some(({ phase }) => phase === "denoise")) return FILLED; // of an earlier version
  const rows = records.filter(({ phase }) => isCounted(phase)).map(({ rows: [row] }) => row);
  if (rows.some(({ threshold }) => threshold !== null)) {
    return verifies ? NEAR : rows.some(({ trace }) => trace?.reasons.includes("rule")) ? OWN_RULE : "";
  }
  return rows.some(({ proposals }) => proposals.length > 1) ? VERIFIED : ONE_TOKEN;
}

// The tokens that this pass would have accepted at the threshold `tried`: those that need none, and then masks that
// meet it (`threshold_prefix` in mars/acceptance.py, with which a test compares it).
export function wouldAccept({ threshold, accepted, proposals }, tried, score, stopIds) {
  if (threshold === null) return accepted;
  const meets = (value) => (isSurerWhenLower(score) ? value <= tried : value >= tried);
  const masks = proposals.findIndex(({ source }) => source === "mask");
  let count = Math.min(accepted, masks < 0 ? proposals.length : masks);
  while (count < proposals.length) {
    const ended = count > 0 && stopIds.includes(proposals[count - 1].token_id);
    if (ended || !meets(proposals[count].score)) break;
    count += 1;
  }
  return count;
}

// "What if τ were …": a slider that recolours what each pass would have accepted.
export class WhatIf {
  constructor(onTry) {
    this.onTry = onTry;
    this.threshold = null;
    this.root = make("div", "step-what-if-panel");
    this.label = put(make("label", "lens-row step-what-if-label"), make("span", "", "What if τ were"));
    this.range = make("input", "step-range", "", { type: "range" });
    this.reading = make("output", "step-what-if-reading");
    this.range.addEventListener("input", () => this.set(Number(this.range.value)));
    this.back = button("lens-tool", "As recorded", () => this.set(null));
    this.notice = make("p", "step-what-if-notice lens-note");
    put(this.label, this.range);
    put(this.root, this.label, this.reading, this.back, this.notice);
  }

  open(lane) {
    this.lane = lane;
    Object.assign(this.range, { min: 0, max: lane.highest, step: 0.01 });
    for (const node of [this.label, this.reading]) node.hidden = Boolean(lane.thresholdless);
    this.start = lane.writing.find(({ row }) => row.threshold !== null)?.row.threshold ?? 1;
    this.set(null);
  }

  set(threshold) {
    this.threshold = threshold;
    this.range.value = threshold ?? this.start;
    this.back.hidden = threshold === null;
    this.reading.textContent = decimals(threshold ?? this.start, 2);
    this.notice.textContent = this.sentence();
    this.onTry(threshold);
  }

  sentence() {
    if (this.lane.thresholdless) return this.lane.thresholdless;
    if (this.threshold === null) return "Move the slider to see which proposals it would have accepted.";
    const { then, now, passes, changed } = this.lane.wouldHave(this.threshold);
    const rate = (tokens) => decimals(tokens / passes, 2);
    return (
      `${changed} of ${passes} passes would differ: ${rate(then)} tokens per forward instead of ${rate(now)}. This ` +
      "counts the recorded scores alone: after the first difference a real run would read other tokens and go on " +
      "differently."
    );
  }
}
