// What the live view under load draws and says.

import assert from "node:assert/strict";
import test from "node:test";

import { pointsOf, topOf, wordsOf } from "../../app/browser/tradeoffs/visitors.js";

const LANE = {
  clock: 3, waiting: 2, writing: 4, answered: 7, refused: 0, speed: 12.34, first: 0.567, layouts: "1 none, 3 tree",
};

test("lines stay within their panel", () => {
  const samples = [{ clock: 0, speed: 0 }, { clock: 30, speed: 5 }, { clock: 99, speed: 99 }];
  const points = pointsOf(samples, "speed", 10).split(" ").map((point) => point.split(",").map(Number));
  assert.deepEqual(points[0], [34, 110]);
  assert.deepEqual(points[2], [476, 8]);
  assert.ok(points[1][0] > 34 && points[1][0] < 476 && points[1][1] === 59);
});

test("the scale ends at a round number that is at least the largest value", () => {
  const top = (...values) => topOf(values.map((speed) => ({ speed })), "speed");
  assert.deepEqual([top(), top(0.2), top(1), top(3), top(12), top(51), top(100)], [1, 1, 1, 5, 20, 100, 100]);
});

test("a lane in words", () => {
  assert.equal(
    wordsOf(LANE, true),
    "2 waiting, 4 being answered, 7 answered · 12.3 tok/s · first token 0.57 s (median) · " +
      "last pass: 1 without drafts, 3 tree",
  );
  assert.ok(!wordsOf(LANE, false).includes("last pass"));
  assert.ok(wordsOf({ ...LANE, first: null, refused: 3 }, true).includes("3 turned away · 12.3 tok/s · first token – "));
});
