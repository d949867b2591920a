// The course: its pages, and words in boxes.

import assert from "node:assert/strict";
import test from "node:test";
import { acceptedAt, PAGES } from "../../app/browser/learn/pages.js";
import { visible } from "../../app/browser/learn/parts.js";

test("six pages, each with a name of its own, a text and a task", () => {
  assert.equal(new Set(PAGES.map(({ id }) => id)).size, 6);
  for (const { title, text, task, build } of PAGES) assert.ok(title && text.length && task && build);
});

test("a page asks one question, and can be read aloud in a minute", () => {
  for (const { question, text } of PAGES) {
    assert.match(question, /^[^?]+\?$/);
    assert.ok(text.join(" ").split(/\s+/).length <= 130, question);
  }
});

test("a threshold accepts the first proposal and those that reach it, up to the end", () => {
  const pass = (...scores) => ({ proposals: scores.map((score, place) => ["x", score, "mask", place === 4]) });
  assert.deepEqual([1, 0.96, 0.9, 0.5].map((threshold) => acceptedAt(pass(0.1, 0.95, 0.5, 0.99, 0.9, 1), threshold)), [1, 1, 2, 5]);
});

test("nothing in a word is invisible", () => {
  assert.deepEqual(["  ", "a\n", "\n"].map(visible), ["␣␣", "a↵", "↵"]);
});
