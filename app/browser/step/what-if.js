// The tokens that another threshold would have accepted of a lane's proposals; no record says this.

import { prefixLength } from "../shared/acceptance.js";
import { decoderOf } from "../shared/decoders.js";

export const COUNTED = new Set(["decode", "verify", "denoise"]); // as in mars/metrics.py

function sourced(row, source) {
  return row.proposals.filter((proposal) => proposal.source === source).length;
}

// Whether a recorded score meets a threshold.
function meets(score, threshold, name) {
  return name === "entropy" ? score <= threshold : score >= threshold;
}

// The length of the accepted prefix at `threshold` (null: one-token mode); the first `fixed` proposals do not depend on
// it. Nothing is accepted behind a token that ends the turn.
export function acceptedAt(lane, row, threshold, fixed) {
  return prefixLength(row.proposals.length, fixed, {
    meets: (place) => threshold !== null && meets(row.proposals[place].score, threshold, lane.settings.score),
    ends: (place) => lane.stop_ids.includes(row.proposals[place].token_id),
  });
}

// Why no threshold decides in this lane, or nothing where one does.
export function thresholdless(lane) {
  if (decoderOf(lane.decoder).needs === "diffusion") return "Another τ is not shown here: later passes would have read other tokens.";
  if (lane.records.some((record) => record.rows[0].threshold !== null && COUNTED.has(record.phase))) return "";
  const wide = lane.records.some((record) => COUNTED.has(record.phase) && record.rows[0].proposals.length > 1);
  return wide
    ? "No τ decides here: drafts are accepted when they are what the model itself says."
    : "No τ decides here: every pass proposes one token, and it is accepted.";
}

// The number of tokens that pass `record` would have accepted at `threshold`. Where drafts are verified, those that were right stay.
export function wouldAccept(lane, record, threshold) {
  const row = record.rows[0];
  if (!COUNTED.has(record.phase)) return 0;
  if (decoderOf(lane.decoder).needs === "diffusion") return row.accepted;
  const verified = 1 + (decoderOf(lane.decoder).draft ? sourced(row, "draft") : 0);
  return row.threshold === null ? row.accepted : acceptedAt(lane, row, threshold, Math.min(verified, row.accepted));
}

// Over the whole lane: tokens that the same passes would have accepted, tokens that they did accept, and the passes.
export function wouldHave(lane, threshold) {
  const counted = lane.records.filter((record) => COUNTED.has(record.phase));
  const sum = (count) => counted.reduce((total, record) => total + count(record), 0);
  return {
    then: sum((record) => wouldAccept(lane, record, threshold)),
    now: sum((record) => record.rows[0].accepted),
    passes: counted.length,
    changed: counted.filter((record) => wouldAccept(lane, record, threshold) !== record.rows[0].accepted).length,
  };
}
