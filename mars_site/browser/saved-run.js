// A run in a file, checked as far as the views need it. The app checks more (app/runs/run.py): what comes here stays in
// this browser and is drawn as text alone.

import { columnsOf, SteppedLane } from "../../app/browser/step/lane.js";

const MOST_LANES = 4;

// A file that is refused, in one sentence.
class RunFileError extends Error {
  get sentence() {
    return `This file cannot be opened as a run: ${this.message}.`;
  }
}

function must(condition, reason) {
  if (!condition) throw new RunFileError(reason);
}

// The run in a text.
export function readRun(text) {
  let run = null;
  try {
    run = JSON.parse(text);
  } catch {
    must(false, "it is not JSON");
  }
  must(run?.kind === "mars-lens-run" && run.schema === 1, "it is no run that MARS Lens saved");
  must(typeof run.id === "string" && typeof run.date === "string", "it must have an id and a date");
  must(typeof run.question?.prompt === "string", "it must have a question");
  must(Array.isArray(run.lanes) && run.lanes.length >= 1 && run.lanes.length <= MOST_LANES, `it must have 1 to ${MOST_LANES} lanes`);
  run.lanes.forEach(checkLane);
  return run;
}

function checkLane(lane, number) {
  const where = `lane ${number + 1}`;
  for (const name of ["key", "title", "checkpoint", "decoder"]) must(typeof lane?.[name] === "string", `${where} must have a ${name}`);
  must(typeof lane.settings?.score === "string", `${where} must have settings`);
  must([lane.written, lane.stop_ids, lane.records].every(Array.isArray), `${where} must have lists of texts, of ends and of passes`);
  must(lane.written.every((text) => typeof text === "string"), `${where} must have texts`);
  must(Array.isArray(lane.earlier ?? []), `${where} must have a list of earlier turns`);
  must(lane.pieces && typeof lane.pieces === "object", `${where} must have the texts of its tokens`);
  let written = 0;
  lane.records.forEach((record, place) => {
    const row = record?.rows?.length === 1 && record.rows[0];
    must(row && Array.isArray(row.proposals), `pass ${place + 1} of ${where} must have one row`);
    must(Number.isInteger(row.accepted) && row.accepted >= 0 && row.accepted <= row.proposals.length, `pass ${place + 1} of ${where} accepts what it does not propose`);
    must(row.proposals.every(({ score, token_id: token }) => typeof score === "number" && token in lane.pieces), `pass ${place + 1} of ${where} proposes a token without a text`);
    written += row.accepted;
  });
  must(lane.records.length > 0 && lane.written.length === written, `${where} must have one text for each accepted token`);
  try {
    const stepped = new SteppedLane(lane);
    for (const pass of stepped.passes) {
      stepped.outcome(pass, columnsOf(pass.row));
      pass.row.proposals.forEach((_, place) => [stepped.describe(pass, place), stepped.reason(pass, place)]);
    }
  } catch {
    must(false, `${where} says of a pass what cannot be`);
  }
}
