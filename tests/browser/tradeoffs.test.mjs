// Trade-offs: which budget is refused and why.

import assert from "node:assert/strict";
import test from "node:test";
import { budgetProblem } from "../../app/browser/tradeoffs/controls.js";

const RANGE = "Enter 0.1 to 50 points.";

test("a budget that cannot be gets a sentence of its own", () => {
  for (const points of [0.1, 2, 50]) assert.equal(budgetProblem(points, 0.1, 50), "");
  assert.equal(budgetProblem(0, 0.1, 50), `No measurement can show a loss of exactly 0 points. ${RANGE}`);
  assert.equal(budgetProblem(0.01, 0.1, 50), `No measurement can show a loss of at most 0.01 points. ${RANGE}`);
  assert.equal(budgetProblem(-3, 0.1, 50), `The budget cannot be negative. ${RANGE}`);
  assert.equal(budgetProblem(100, 0.1, 50), `With a budget of 100 points almost any answer would do. ${RANGE}`);
  assert.equal(budgetProblem(NaN, 0.1, 50), `The budget must be a number. ${RANGE}`);
});
