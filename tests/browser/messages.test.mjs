// Lines of messages, and questions with their answers.

import assert from "node:assert/strict";
import test from "node:test";
import { messagesOf, Questions, QuestionQueue } from "../../app/browser/shared/messages.js";

test("each line is a message, and nothing is none", () => {
  const heard = ['{"a":1}\n[2]\n', "", null, "3"].flatMap(messagesOf);
  assert.deepEqual(heard, [{ a: 1 }, [2], 3]);
});

test("each question gets the answer with its ticket", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const sent = [];
  const questions = new Questions((question) => sent.push(question));
  const answers = [questions.ask("read", "a"), questions.ask("read", "b"), questions.ask("read", "c")];
  questions.hear({ ticket: 2, run: "B" });
  questions.hear({ ticket: 1, run: "A" });
  questions.hear({ ticket: 9, run: "nobody's" });
  context.mock.timers.tick(60_000);
  assert.deepEqual(sent[1], { ask: "read", text: "b", ticket: 2 });
  const [a, b, c] = await Promise.all(answers);
  assert.deepEqual([a, b], [{ run: "A" }, { run: "B" }]);
  assert.match(c.problem, /^The server does not answer\./);
});

test("questions wait for the answer before them, and hear how far it is", async () => {
  const sent = [];
  const questions = new QuestionQueue((question) => sent.push(question.about.id));
  const heard = [];
  const first = questions.ask("card", { id: 1 }, (words) => heard.push(words));
  const second = questions.ask("card", { id: 2 });
  await null;
  await null;
  assert.deepEqual(sent, [1]);
  questions.hear({ ticket: 1, progress: "half way" });
  questions.hear({ ticket: 7, answer: "nobody's" });
  questions.hear({ ticket: 1, answer: "one" });
  assert.deepEqual(await first, { answer: "one" });
  await null;
  assert.deepEqual(sent, [1, 2]);
  questions.hear({ ticket: 2, problem: "none" });
  assert.deepEqual([await second, heard], [{ problem: "none" }, ["half way"]]);
});
