// Step through: passes, sums of what another threshold would have accepted, and the words, of the shipped runs and of small ones.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";
import { columnsOf, SteppedLane } from "../../app/browser/step/lane.js";
import { usualLane } from "../../app/browser/step/view.js";
import { thresholdless } from "../../app/browser/step/what-if.js";

globalThis.document = { getElementById: () => ({ textContent: process.env.LENS_DECODERS }) }; // as test_modules.py gives it

const FOLDER = new URL("../../assets/replays/", import.meta.url);
const RUNS = readdirSync(FOLDER).filter((name) => name.endsWith(".json")).map((name) => JSON.parse(readFileSync(new URL(name, FOLDER))));
const LANES = RUNS.flatMap((run) => run.lanes);

const { steps: STEPS } = JSON.parse(process.env.LENS_STANDINS); // as tests/standins.py makes them

test("the passes of every shipped lane are numbered and gain what was written", () => {
  assert.ok(LANES.length >= 4);
  for (const each of LANES) {
    const stepped = new SteppedLane(each);
    const { from, row } = stepped.passes.at(-1);
    assert.equal(from + row.accepted, each.written.length);
    const numbers = stepped.writing.map(({ number }) => number);
    assert.deepEqual(numbers, numbers.map((_, place) => place + 1));
  }
});

test("what another threshold would have accepted is summed over the passes that count", () => {
  const stepped = new SteppedLane(STEPS.threshold);
  assert.deepEqual([0.99, 0.9, 0.5, 0.1].map((threshold) => stepped.wouldHave(threshold).then), [2, 3, 5, 6]);
  assert.deepEqual(stepped.wouldHave(0.5), { then: 5, now: 3, passes: 2, changed: 1 });
});

test("where no threshold decides, or none can be tried, a lane says why", () => {
  const why = (lane, decoder = lane.decoder) => thresholdless({ ...lane, decoder });
  const ruled = structuredClone(STEPS.refused);
  ruled.records[0].rows[0].trace.reasons[1] = "rule";
  assert.equal(why(STEPS.threshold), "");
  assert.equal(why(STEPS.threshold, "invented"), "");
  assert.match(why(STEPS.verified), /a draft is kept only if/);
  assert.match(why(STEPS["one token"]), /every pass proposes one token/);
  assert.match(why(STEPS.threshold, "relaxed"), /how near a refused draft was/);
  assert.match(why(ruled), /a rule beside the threshold/);
});

test("a run of an earlier version shows its proposals, and says that it does not know more", () => {
  const { trace, ...row } = STEPS.refused.records[0].rows[0];
  assert.ok(trace);
  const old = { ...STEPS.refused, records: [{ ...STEPS.refused.records[0], rows: [row] }] };
  const stepped = new SteppedLane(old);
  const [pass] = stepped.passes;
  const shape = columnsOf(pass.row);
  assert.deepEqual([shape.known, shape.columns.length, shape.tree], [false, row.proposals.length, false]);
  assert.ok(shape.columns.every(({ token }) => token === null));
  assert.equal(stepped.reason(pass, 0), "Accepted. An earlier version recorded this run, without reasons.");
  assert.match(stepped.reason(pass, 1), /^Not accepted\. /);
  assert.equal(stepped.outcome(pass, shape), "1 of 3 proposals accepted.");
});

test("without a wish the lane with most to see is shown", () => {
  const [slow, fast] = [STEPS["one token"], STEPS.several];
  assert.equal(usualLane({ lanes: [slow, fast, slow] }).key, "b");
  assert.equal(usualLane({ lanes: [slow] }).key, "a");
});
