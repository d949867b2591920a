// The course: its pages.

import assert from "node:assert/strict";
import test from "node:test";
import { PAGES } from "../../app/browser/learn/pages.js";

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
