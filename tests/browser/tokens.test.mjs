// Numbers, thresholds and tokens as people see them.

import assert from "node:assert/strict";
import test from "node:test";
import { decoderOf } from "../../app/browser/shared/decoders.js";
import * as tokens from "../../app/browser/shared/tokens.js";

globalThis.document = { getElementById: () => ({ textContent: process.env.LENS_DECODERS }) }; // as test_modules.py gives it

test("a score is cut, so that it does not look as if it reached a threshold", () => {
  assert.equal(tokens.cut(0.8999, 2), "0.89");
  assert.equal(tokens.cut(0.9, 2), "0.90");
  assert.equal(tokens.cut(0.29, 2), "0.29"); // 0.29 * 100 is a little less than 29
  assert.equal(tokens.decimals(0.8999, 2), "0.90");
  assert.equal(tokens.decimals(1234.5, 1), "1,234.5");
});

test("a decoder that is not in the table is none of JavaScript's names", () => {
  assert.equal(decoderOf("constructor").family, "masks");
});

test("no threshold is one token per pass", () => {
  assert.equal(tokens.thresholdName(null), "one token per pass");
  assert.equal(tokens.thresholdName(0.5), "τ 0.50");
});

test("an entropy is surer when it is lower", () => {
  assert.equal(tokens.sureness(0.7, "probability"), 0.7);
  assert.equal(tokens.sureness(1.2, "margin"), 1);
  assert.equal(tokens.sureness(-0.1, "margin"), 0);
  assert.equal(tokens.sureness(0, "entropy"), 1);
  assert.ok(tokens.sureness(2, "entropy") < tokens.sureness(1, "entropy"));
});

test("nothing in a piece is invisible", () => {
  assert.equal(tokens.visiblePiece(""), "∅");
  assert.equal(tokens.visiblePiece("  "), "␣␣");
  assert.equal(tokens.visiblePiece(" word"), "·word");
  assert.equal(tokens.visiblePiece("a\n\tb"), "a↵⇥b");
  assert.equal(tokens.visiblePiece("\n"), "↵");
});

test("one is singular", () => {
  assert.deepEqual([0, 1, 2].map((number) => tokens.plural(number, "mask")), ["0 masks", "1 mask", "2 masks"]);
});
