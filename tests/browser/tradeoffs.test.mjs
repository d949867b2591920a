// Trade-offs: which budget is refused and why.

import assert from "node:assert/strict";
import test from "node:test";
import { budgetProblem } from "../../app/browser/tradeoffs/controls.js";

test("a budget that cannot be is answered with its range", () => {
  for (const points of [0.1, 2, 50]) assert.equal(budgetProblem(points, 0.1, 50), "");
  for (const points of [0, 0.01, -3, 100, NaN]) {
    assert.equal(budgetProblem(points, 0.1, 50), "The budget must be from 0.1 to 50 points.");
  }
});
