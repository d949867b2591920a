// The runs of a page, and what the browser keeps of them.

import assert from "node:assert/strict";
import test from "node:test";

const stored = new Map();
const storage = { getItem: (name) => stored.get(name) ?? null, setItem: (name, text) => stored.set(name, text), removeItem: (name) => stored.delete(name) };
globalThis.localStorage = storage;
globalThis.document = new EventTarget();
globalThis.CustomEvent ??= class extends Event {};
const { keep, kept } = await import("../../app/browser/shared/dom.js");
const { keeper, lastRun } = await import("../../app/browser/shared/keeper.js");

const run = (id) => ({ id, title: "", date: "2026-11-22", question: { prompt: "?" }, lanes: [] });

test("the last twelve runs are kept, and the newest over a reload", () => {
  const told = [];
  document.addEventListener("lens:run", (event) => told.push(event.detail.id));
  for (let number = 0; number < 14; number++) keeper.add(JSON.stringify(run(`r${number}`)));
  assert.deepEqual([...keeper.runs.keys()], Array.from({ length: 12 }, (_, place) => `r${place + 2}`));
  assert.equal(keeper.newest.id, "r13");
  assert.deepEqual(keeper.open("r5"), run("r5"));
  assert.equal(keeper.open("r0"), undefined);
  assert.equal(JSON.parse(lastRun()).id, "r13");
  assert.equal(told.length, 14);
});

test("a run too long for the browser takes the place of the one before", () => {
  keeper.add(JSON.stringify({ ...run("long"), note: "x".repeat(4_000_000) }));
  assert.equal(lastRun(), null);
  assert.equal(keeper.newest.id, "long");
});

test("a storage that is full or forbidden changes nothing", () => {
  globalThis.localStorage = { ...storage, setItem() { throw new Error("full"); }, getItem() { throw new Error("forbidden"); } };
  keep("name", "value");
  assert.equal(kept("name"), null);
  globalThis.localStorage = storage;
});
