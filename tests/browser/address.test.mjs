// What an address says, and what is written into it.

import assert from "node:assert/strict";
import test from "node:test";
import { addressOf, csvOf, viewOf } from "../../app/browser/tradeoffs/view.js";

globalThis.window = { addEventListener: () => {}, scrollTo: () => {} };
const asks = {};
const TABLE = { textContent: process.env.LENS_DECODERS };
globalThis.document = { getElementById: (id) => (id === "lens-decoders" ? TABLE : null), dispatchEvent() {}, addEventListener: (name, act) => (asks[name] = act) };
globalThis.location = { search: "", pathname: "/", hash: "", get href() { return `http://lens.test/${this.search}`; } };
globalThis.history = {
  state: null,
  write(state, _, url) {
    Object.assign(this, { state });
    location.search = url.slice(1);
  },
  replaceState(...given) {
    this.write(...given);
  },
  pushState(...given) {
    this.write(...given);
  },
};
const { compareParameters, openAddress } = await import("../../app/browser/shared/address.js");

function open(search, state = null) {
  Object.assign(location, { search });
  history.state = state;
  const refused = [];
  const asked = [];
  const address = openAddress(["compare", "learn"], (pairs) => refused.push(...pairs), () => asked.push(compareParameters()));
  return { address, refused, asked };
}

test("an address names its tab and what there is to restore", async () => {
  const { address, refused } = open("?tab=learn&lesson=cache&colour=red&__theme=dark");
  const given = [];
  const place = address.join("learn", ["lesson"], (values) => void given.push(values.lesson));
  assert.equal(place.given, true);
  await new Promise(setImmediate);
  assert.deepEqual(given, ["cache"]);
  assert.deepEqual(refused, [["colour", "red"]]);
  assert.deepEqual(compareParameters(), {});
  place.say({ lesson: "exact", other: null });
  assert.equal(address.link, "http://lens.test/?__theme=dark&tab=learn&lesson=exact");
});

test("what the browser kept counts only for the address that it was kept with", () => {
  const views = { compare: { seed: "7" } };
  open("?seed=3", { lens: { search: "?seed=3", views } });
  assert.deepEqual(compareParameters(), { seed: "7" });
  open("?seed=3", { lens: { search: "?seed=4", views } });
  assert.deepEqual(compareParameters(), { seed: "3" });
});

test("the address says only what differs, and a preset stands for the settings of its lane", () => {
  const { address } = open("?seed=0");
  const usual = { seed: 0, prompt: "2 + 2", "b.preset": "MARS", "b.decoder": "sliding_window", "b.temperature": 0 };
  address.settings.hear({ refused: [], usual });
  const said = (...values) => {
    address.settings.change(values);
    return Object.fromEntries(new URLSearchParams(address.link.split("?")[1]));
  };
  assert.deepEqual(said(0, "2 + 2", "MARS", "sliding_window", 0), {});
  assert.deepEqual(said(5, "2 + 2", "AR", "autoregressive", 0), { seed: "5", "b.preset": "AR" });
  assert.deepEqual(said(0, "2 + 2", "Own", "jacobi", 0), { "b.decoder": "jacobi" });
  address.settings.give("prompt", "mine");
  assert.deepEqual(said(0, "mine", "MARS", "sliding_window", 0), { prompt: "mine" });
});

test("a view of Trade-offs and its address say the same", () => {
  const nothing = { run: null, figure: null, against: null, runs: null, task: null, points: null, batch: null };
  assert.deepEqual(addressOf(viewOf({}).view, null), nothing);
  const view = { figure: "pareto", against: "tokens_per_forward", runs: "ab", task: "sums", points: 5, batch: 4 };
  const said = addressOf(view, "r1");
  assert.deepEqual(said, { run: "r1", ...view });
  const back = viewOf(Object.fromEntries(Object.entries(said).map(([name, value]) => [name, String(value)])));
  assert.deepEqual(back, { view, run: "r1", refused: [] });
  for (const points of ["none", "0", "51", ""]) assert.deepEqual(viewOf({ points }).refused, ["points"]);
  for (const batch of ["0", "-1", "x", "1.5"]) assert.deepEqual(viewOf({ batch }).refused, ["batch"]);
});

test("a saved table is quoted and holds no formula", () => {
  const columns = [{ label: "Model", number: false }, { label: "τ", number: true }, { label: "Loss", number: true }];
  const row = (id, cells, numbers) => ({ id, cells, numbers: [[], [], numbers] });
  const rows = [row("a", ['=HYPERLINK("x")', "τ 0.9", "−1.5 [−2.0, 0.1]"], [-1.51234, -2, 0.1]), row("b", ["\t@x", "", ""], [])];
  assert.equal(csvOf({ columns, rows }), `"Run","Model","τ","Loss","Loss, low","Loss, high"
"a","'=HYPERLINK(""x"")","τ 0.9","-1.51234","-2","0.1"
"b","'\t@x","","","",""
`.replaceAll("\n", "\r\n"));
  assert.equal(csvOf({ columns, rows: [] }), '"Run","Model","τ","Loss"\r\n');
});

test("what another tab asks of Compare is an address", async () => {
  const { address, asked } = open("?models=tiny&seed=3&task=logic&tau=0.8&b.preset=AR&a.block_size=4&prompt=x");
  asks["lens:use"]({ detail: { choice: { checkpoint: "m", draft: null, follows: false, threshold: 0.7, extra_proposal: true } } });
  await new Promise(setImmediate);
  const lane = { "b.checkpoint": "m", "b.extra_proposal": "true", "b.mode": "own", "b.threshold": "0.7" };
  const left = { models: "tiny", tau: "0.8", "a.block_size": "4" };
  assert.deepEqual(asked.at(-1), { seed: "3", task: "logic", prompt: "x", ...left, ...lane });
  asks["lens:problem"]({ detail: { task: "table_lookup", seed: 5, prompt: "y" } });
  await new Promise(setImmediate);
  assert.deepEqual(asked.at(-1), { ...left, ...lane, task: "table_lookup", seed: "5", prompt: "y" });
  address.settings.open({ models: "tiny" });
  await new Promise(setImmediate);
  assert.deepEqual(asked.at(-1), { models: "tiny" });
  asks["lens:use"]({ detail: { choice: { decoder: "self_speculative" } } });
  await new Promise(setImmediate);
  assert.equal(asked.at(-1).lanes, "2", "a third lane would write the same");
  address.settings.open({ lanes: 3, "c.decoder": "jacobi" });
  asks["lens:use"]({ detail: { choice: { decoder: "self_speculative" } } });
  await new Promise(setImmediate);
  assert.equal(asked.at(-1).lanes, "3", "a person has changed it");
});
