// Lines of messages, and questions with their answers.

import assert from "node:assert/strict";
import test from "node:test";
import { messagesOf, Questions } from "../../app/browser/shared/messages.js";

test("each line is a message, and nothing is none", () => {
  const heard = ['{"a":1}\n[2]\n', "", null, "3"].flatMap(messagesOf);
  assert.deepEqual(heard, [{ a: 1 }, [2], 3]);
});

test("questions wait for the answer before them", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const sent = [];
  const questions = new Questions({ props: {}, watch() {}, submit: (question) => sent.push(question) });
  const first = questions.ask("card", { about: 1 });
  const second = questions.ask("read", { text: "b" });
  await null;
  await null;
  assert.deepEqual(sent, [{ about: 1, ask: "card", ticket: 1 }]);
  questions.hear({ ticket: 7, answer: "nobody's" });
  questions.hear({ ticket: 1, answer: "one" });
  assert.deepEqual(await first, { answer: "one" });
  await null;
  assert.deepEqual(sent[1], { text: "b", ask: "read", ticket: 2 });
  context.mock.timers.tick(120_000);
  assert.match((await second).problem, /^The server does not answer\./);
  questions.hear({ ticket: 2, answer: "too late" });
});
