// Compare and its score board: reasons, counts, and the board that messages make.

import assert from "node:assert/strict";
import test from "node:test";
import { BoardModel } from "../../app/browser/compare/board.js";
import { reasonOf } from "../../app/browser/compare/card.js";
import { keepLast } from "../../app/browser/compare/controls.js";
import { costWords } from "../../app/browser/compare/counters.js";
import { letterWords, proposedBy, proposedWords } from "../../app/browser/shared/tokens.js";
import { Lane } from "../../mars_site/browser/live/lane.js";
import { scaled } from "../../app/browser/tradeoffs/plot.js";

globalThis.document = { getElementById: () => ({ textContent: process.env.LENS_DECODERS }) }; // as test_modules.py gives it

const { lanes: CARDS, passes: PASSES, board: BOARD } = JSON.parse(process.env.LENS_STANDINS); // as tests/standins.py makes them

const LANE_OF = { entropy: "entropy", draft: "exact" };

function reasons(name) {
  const lane = CARDS[LANE_OF[name] ?? "masks"];
  const message = PASSES[name];
  return message.ghosts.map((_, place) => reasonOf({ lane, message, place: message.tokens.length + place }));
}
const BEHIND = "Not accepted: a proposal to its left was refused.";
const REFUSED = {
  threshold: ["Refused: its score does not reach τ.", BEHIND],
  entropy: ["Refused: its entropy is above τ.", BEHIND],
  end: Array(2).fill("Not accepted: the answer ends to its left."),
  draft: ["Refused: it read a draft that is not the model's own choice.", "Not kept as a draft: the model was not sure enough of it."],
};

for (const [name, expected] of Object.entries(REFUSED)) {
  test(`a rejected proposal says why: ${name}`, () => assert.deepEqual(reasons(name), expected));
}

test("an accepted token says why", () => {
  const why = (name, place) => reasonOf({ lane: CARDS.masks, message: PASSES[name], place });
  assert.equal(why("accepted", 0), "It read only real tokens, so it is the autoregressive token, which is always accepted.");
  assert.equal(why("accepted", 1), "It read masks; accepted because its score reaches τ.");
  assert.match(why("ended", 0), /^End of the turn\. /);
  const verified = (name, change) => reasonOf({ lane: CARDS.exact, message: { ...PASSES[name], ...change }, place: 1 });
  const matched = "Every draft before it matched the model's own choice, so it was kept.";
  assert.equal(verified("verified"), matched);
  assert.equal(verified("copied"), `${matched} The last of them was copied from the text.`);
  assert.equal(verified("verified", { threshold: 0.3 }), "Every draft before it passed the check, so it was kept.");
});

test("what proposed a lane's tokens is said by its name", () => {
  const sources = ["clean", "mask", "draft", "copy"];
  assert.deepEqual(proposedBy(sources, "self_speculative"), { mask: 2, copy: 1 });
  assert.deepEqual(proposedBy(sources, "speculative"), { mask: 1, draft: 1, copy: 1 });
  assert.equal(proposedWords({ mask: 2, copy: 1 }), "2 proposed by masks, 1 copied from the text");
  assert.equal(proposedWords({}), "");
  assert.equal(letterWords({ mask: 2 }), "m: proposed by masks");
});

test("a lane says from how many tokens its passes pay", () => {
  const said = "A pass takes 13.2 ms, AR's 8.5 ms. Once the prompt is read, a pass of more than 1.55 tokens is faster; this lane writes 1.20.";
  assert.equal(costWords(1.2, 13.2, 8.5), said);
  assert.match(costWords(2.1, 8.4, 8.5), /This lane writes 2\.10 tokens in no more time than AR takes for one\.$/);
  assert.match(costWords(2.1, 1316.14, 99.96), /^A pass takes 1,316 ms, AR's 100.0 ms\./);
});

test("a live lane's speed is that of AR's time for as many tokens", () => {
  const records = [{ phase: "prefill", seconds: 9 }];
  const lane = (tokens, seconds) => Object.assign(new Lane({}, {}, []), { tokens, seconds, records });
  assert.equal(lane(3, 12).over(lane(12, 21)), 1);
});

const { opening: OPENING, wrote: WROTE } = BOARD;
const LANES = OPENING.lanes;

test("a board folds its messages into cells", () => {
  const model = new BoardModel(OPENING);
  assert.deepEqual(LANES.map(({ key }) => model.standing(key, 0)), ["pending", "pending", "absent"]);
  model.current = 0;
  assert.deepEqual(LANES.map(({ key }) => model.standing(key, 0)), ["writing", "writing", "absent"]);
  for (const wrote of [WROTE.a, WROTE.b, WROTE.b]) model.cells[0].set(wrote.lane, wrote); // one told twice
  assert.equal(model.cells[0].size, 2);
  assert.equal(model.differs(0), true);
  Object.assign(model, { current: 1, state: { state: "stopped" } });
  assert.deepEqual(LANES.map(({ key }) => model.standing(key, 1)), ["stopped", "stopped", "absent"]);
  assert.deepEqual(model.writers.map(({ key }) => key), ["a", "b"]);
});

test("a factor scales the sizes of type and nothing else", () => {
  const layout = { font: { size: 10 }, marker: { size: 4 }, xaxis: { tickfont: { size: 8, color: "red" } }, list: [{ font: { size: 2 } }] };
  assert.deepEqual(scaled(layout, 2), {
    font: { size: 20 }, marker: { size: 4 }, xaxis: { tickfont: { size: 16, color: "red" } }, list: [{ font: { size: 4 } }],
  });
  assert.equal(scaled(layout, 1), layout);
});

test("when the slider has come to rest its place is said once more", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const root = new EventTarget();
  const said = [];
  const slider = { value: 0, matches: (selector) => selector === "#threshold input", dispatchEvent: (event) => tell(event) };
  const tell = (event) => {
    Object.defineProperty(event, "target", { value: slider });
    said.push([slider.value, event.detail === keepLast]);
    listeners.forEach((hear) => hear(event));
  };
  const listeners = [];
  root.addEventListener = (_, hear) => listeners.push(hear);
  keepLast(root, "#threshold input");
  for (let step = 1; step <= 60; step++) {
    slider.value = step;
    tell(new CustomEvent("input"));
    context.mock.timers.tick(10);
  }
  assert.equal(said.length, 60);
  context.mock.timers.tick(300);
  assert.deepEqual(said.at(-1), [60, true]);
  context.mock.timers.tick(5000);
  assert.equal(said.length, 61);
});
