// What the pages draw: lanes of recorded runs, which are saved as app/runs/run.py says, and measured times of passes.

// `ar`, `mars` and `exact` are lanes of the real model. `small` and `sweep`, from the lowest threshold up, are lanes of
// the small model, whose answers can be checked; it answers `prompt`, which Compare can ask again as `problem`.
export function materialOf({ real, small, sweep, passTimes }) {
  const [ar, mars, exact] = real.lanes.map(laneOf);
  const lanes = sweep.flatMap((run) => run.lanes.map(laneOf));
  lanes.sort((one, other) => one.threshold - other.threshold);
  return { ...small.question, ar, mars, exact, small: laneOf(small.lanes[0]), sweep: lanes, passTimes };
}

function laneOf(lane) {
  const { checkpoint, right, written, records, settings } = lane;
  const rows = records.map(({ rows: [row] }) => row).filter(({ proposals }) => proposals.length);
  return { checkpoint, threshold: settings.threshold, right, written, passes: rows.map((row) => passOf(lane, row)) };
}

// Proposals are [text, score, source, true if it ends the turn]; of `drafts` that the pass verified, so many were `right`.
function passOf({ pieces, stop_ids }, { start, accepted, proposals }) {
  const drafts = proposals.filter(({ source }) => source === "draft").length;
  const shown = proposals.map(({ token_id, score, source }) => [pieces[token_id], score, source, stop_ids.includes(token_id)]);
  return { start, accepted, drafts, right: Math.min(drafts, accepted - 1), proposals: shown };
}
