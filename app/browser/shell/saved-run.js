// A run in a file, checked as far as the views need it, with what other thresholds would have accepted. The app checks
// more (app/runs/run.py, app/runs/what_if.py): what comes here stays in this browser and is drawn as text alone.

import { decoderOf, isCounted, isSurerWhenLower } from "../shared/decoders.js";
import { HUNDREDTHS } from "../shared/reasons.js";

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

// The document of a text, as the page opens it: {run, what_if}.
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
  return { run, what_if: Object.fromEntries(run.lanes.map((lane) => [lane.key, whatIf(lane)])) };
}

function checkLane(lane, number) {
  const where = `lane ${number + 1}`;
  for (const name of ["key", "title", "checkpoint", "decoder"]) must(typeof lane?.[name] === "string", `${where} must have a ${name}`);
  must(typeof lane.settings?.score === "string", `${where} must have settings`);
  must([lane.written, lane.stop_ids, lane.records].every(Array.isArray), `${where} must have lists of texts, of ends and of passes`);
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
}

const FILLED = "Another τ is not shown here: later passes would have read other tokens.";
const VERIFIED = "No threshold: a draft is kept only if it equals the model's own choice.";
const NEAR = "Another τ is not shown here: the run does not record how near a refused draft was to the best token.";
const ONE_TOKEN = "No threshold: every pass proposes one token, and it is accepted.";

function thresholdless({ decoder, records }) {
  const { needs, verifies } = decoderOf(decoder);
  if (needs === "diffusion") return FILLED;
  const rows = records.filter(({ phase }) => isCounted(phase)).map(({ rows: [row] }) => row);
  if (rows.some(({ threshold }) => threshold !== null)) return verifies ? NEAR : "";
  return rows.some(({ proposals }) => proposals.length > 1) ? VERIFIED : ONE_TOKEN;
}

// The same as `what_if` in app/runs/what_if.py.
export function whatIf(lane) {
  const none = thresholdless(lane);
  if (none) return { none, highest: 0, passes: [] };
  const { score } = lane.settings;
  const scores = lane.records.flatMap(({ rows: [row] }) => row.proposals.map((proposal) => proposal.score));
  const highest = HUNDREDTHS * (isSurerWhenLower(score) ? Math.ceil(Math.max(...scores, 0)) || 1 : 1);
  const passes = lane.records.map((record) => steps(record, highest, score, lane.stop_ids));
  return { none, highest, passes };
}

const meets = (value, threshold, score) => (isSurerWhenLower(score) ? value <= threshold : value >= threshold);

function wouldAccept({ threshold, accepted, proposals }, tried, score, stopIds) {
  if (threshold === null) return accepted;
  const masks = proposals.findIndex(({ source }) => source === "mask");
  let count = Math.min(accepted, masks < 0 ? proposals.length : masks);
  while (count < proposals.length) {
    const ended = count > 0 && stopIds.includes(proposals[count - 1].token_id);
    if (ended || !meets(proposals[count].score, tried, score)) break;
    count += 1;
  }
  return count;
}

function steps({ phase, rows: [row] }, highest, score, stopIds) {
  if (!isCounted(phase)) return [[0, 0]];
  const found = [];
  for (let turn = 0; turn <= highest; turn += 1) {
    const count = wouldAccept(row, turn / HUNDREDTHS, score, stopIds);
    if (found.at(-1)?.[1] !== count) found.push([turn, count]);
  }
  return found;
}
