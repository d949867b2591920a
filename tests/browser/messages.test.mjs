// Lines of a value, of pieces, or of both, and questions with their answers.

import assert from "node:assert/strict";
import test from "node:test";
import { Line, Lines, TradeLine } from "../../app/browser/shared/messages.js";

function hear(...steps) {
  const heard = [];
  const lines = new Lines((message) => heard.push(message));
  for (const [way, ...what] of steps) lines[way](...what);
  return heard;
}

const written = (from, to) => Array.from({ length: to - from }, (_, place) => `${from + place}\n`).join("");

const CASES = {
  "a growing value": [[["read", "0\n1\n"], ["read", "0\n1\n2\n"]], [0, 1, 2]],
  "a line that is not whole yet": [[["read", "0\n1"], ["read", "0\n12\n"]], [0, 12]],
  "nothing yet": [[["read", null], ["read", ""], ["read", "0"], ["read", "0\n"]], [0]],
  "another first line starts anew": [[["read", "0\n1\n"], ["read", "5\n"]], [0, 1, 5]],
  "anew after pieces": [[["read", "0\n"], ["more", 1, "1\n2\n"], ["read", "5\n6\n"]], [0, 1, 2, 5, 6]],
  "pieces of what began anew": [[["read", "0\n"], ["more", 1, "1\n"], ["read", "5\n"], ["more", 1, "6\n"]], [0, 1, 5, 6]],
  "pieces alone": [[["more", 0, "0\n1\n"], ["more", 2, "2\n"]], [0, 1, 2]],
  "a value that comes later than the pieces": [[["read", "0\n"], ["more", 1, "1\n2\n"], ["read", "0\n1\n2\n3\n"]], [0, 1, 2, 3]],
  "a piece in the middle of what is known": [[["read", "0\n1\n2\n3\n"], ["more", 1, "1\n2\n"]], [0, 1, 2, 3]],
  "a piece that is partly known": [[["read", "0\n1\n2\n"], ["more", 1, "1\n2\n3\n4\n"]], [0, 1, 2, 3, 4]],
  "a piece behind a gap": [[["read", "0\n"], ["more", 2, "2\n3\n"], ["more", 1, "1\n"]], [0, 1]],
  "a piece that ends within a line": [[["read", "0\n"], ["more", 1, ""], ["more", 1, "1\n2"]], [0, 1]],
};

for (const [name, [steps, heard]] of Object.entries(CASES)) {
  test(`each line is heard once: ${name}`, () => assert.deepEqual(hear(...steps), heard));
}

test("the order in which value and pieces come does not matter", () => {
  let seed = 1;
  const random = (below) => {
    seed = (seed * 48271) % 2147483647;
    return seed % below;
  };
  for (let round = 0; round < 50; round++) {
    const steps = [["read", written(0, 1)]];
    let [fetched, value] = [1, 1];
    while (steps.length < 20) {
      if (random(2)) {
        value += random(Math.max(value, fetched) + 4 - value);
        steps.push(["read", written(0, value)]);
      } else {
        const after = random(Math.max(value, fetched) + 1);
        fetched = Math.max(fetched, after + random(5));
        steps.push(["more", after, written(after, fetched)]);
      }
    }
    const most = Math.max(fetched, value);
    assert.deepEqual(hear(...steps), Array.from({ length: most }, (_, number) => number));
  }
});

test("each question gets the answer with its ticket", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const sent = [];
  const line = new Line((question) => sent.push(question));
  const answers = [line.ask("read", "a"), line.ask("read", "b"), line.ask("read", "c")];
  line.hear({ ticket: 2, run: "B" });
  line.hear({ ticket: 1, run: "A" });
  line.hear({ ticket: 9, run: "nobody's" });
  context.mock.timers.tick(60_000);
  assert.deepEqual(sent[1], { ask: "read", text: "b", ticket: 2 });
  const [a, b, c] = await Promise.all(answers);
  assert.deepEqual([a, b], [{ run: "A" }, { run: "B" }]);
  assert.match(c.problem, /^The server does not answer\./);
});

test("questions wait for the answer before them, and hear how far it is", async () => {
  const sent = [];
  const line = new TradeLine((question) => sent.push(question.about.id));
  const heard = [];
  const first = line.ask("card", { id: 1 }, (words) => heard.push(words));
  const second = line.ask("card", { id: 2 });
  await null;
  await null;
  assert.deepEqual(sent, [1]);
  line.hear({ ticket: 1, progress: "half way" });
  line.hear({ ticket: 7, answer: "nobody's" });
  line.hear({ ticket: 1, answer: "one" });
  assert.deepEqual(await first, { answer: "one" });
  await null;
  assert.deepEqual(sent, [1, 2]);
  line.hear({ ticket: 2, problem: "none" });
  assert.deepEqual([await second, heard], [{ problem: "none" }, ["half way"]]);
});
