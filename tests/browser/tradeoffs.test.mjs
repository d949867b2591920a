// Trade-offs: which budget is refused and why, and which mark the pointer means.

import assert from "node:assert/strict";
import test from "node:test";
import { budgetProblem } from "../../app/browser/tradeoffs/controls.js";
import { nearestMark } from "../../app/browser/tradeoffs/plot.js";

const RANGE = "Enter 0.1 to 50 points.";

test("a budget that cannot be gets a sentence of its own", () => {
  for (const points of [0.1, 2, 50]) assert.equal(budgetProblem(points, 0.1, 50), "");
  assert.equal(budgetProblem(0, 0.1, 50), `No measurement can show a loss of exactly 0 points. ${RANGE}`);
  assert.equal(budgetProblem(0.01, 0.1, 50), `No measurement can show a loss of at most 0.01 points. ${RANGE}`);
  assert.equal(budgetProblem(-3, 0.1, 50), `The budget cannot be negative. ${RANGE}`);
  assert.equal(budgetProblem(100, 0.1, 50), `With a budget of 100 points almost any answer would do. ${RANGE}`);
  assert.equal(budgetProblem(NaN, 0.1, 50), `The budget must be a number. ${RANGE}`);
});

const axis = (offset) => ({ _offset: offset, d2p: (value) => 10 * value });
const layout = { xaxis: axis(0), yaxis: axis(0), xaxis2: axis(500), yaxis2: axis(0) };
const trace = (customdata, x, y, more = {}) => ({ type: "scatter", visible: true, xaxis: "x", yaxis: "y", customdata, x, y, ...more });

test("of marks that overlap the nearest is meant", () => {
  const traces = [trace(["a", "b"], [1, 1.3], [1, 1]), trace(["c"], [1.1], [1])];
  const at = (x, y) => {
    const found = nearestMark(traces, layout, x, y);
    return found && traces[found.curveNumber].customdata[found.pointNumber];
  };
  assert.equal(at(10, 10), "a");
  assert.equal(at(11.2, 10), "c");
  assert.equal(at(12.6, 10), "b");
  assert.equal(at(100, 10), null);
});

test("each panel has its own axes; rings, stars and hidden series are no marks of runs", () => {
  const second = { xaxis: "x2", yaxis: "y2" };
  const traces = [
    trace(undefined, [1], [1]),
    trace(["hidden"], [1], [1], { visible: "legendonly" }),
    trace(["", "a"], [1, 2], [1, 1]),
    trace(["b"], [1], [1], second),
  ];
  assert.equal(nearestMark(traces, layout, 10, 10).pointNumber, 1);
  assert.deepEqual(nearestMark(traces, layout, 510, 10), { curveNumber: 3, pointNumber: 0, far: 0, panel: "x2y2" });
});
