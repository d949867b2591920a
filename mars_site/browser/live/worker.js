// The engine of the page without a server, in a worker: loads a pair of checkpoints, lets its lanes write by turns, and
// posts the messages of the run. What it runs with is put in front of this script (mars_site/live.py): `liveEngines`, the
// builds of ONNX Runtime with the files that each needs, and `liveTokenizer`, the class of the tokenizers package.

import { decode } from "./decoding.js";
import { comparisons, Lane } from "./lane.js";
import { Model, openSession } from "./model.js";
import { LiveError, Text } from "./text.js";
import { readFiles } from "./weights.js";

const MEGABYTE = 1e6;
const WARM_UP = [16, 1, 4, 16, 1, 4]; // columns of a pass
const TAUGHT = "Fewer passes need not be fewer seconds: here each column costs arithmetic.";
const NOT_KEPT = "This browser stores nothing for this page, so that the next visit loads the model again.";
const REASONS = [
  [/device.*(lost|destroyed)|lost.*device/i, "The graphics device was lost: press Run live to start again."],
  [/memory|alloc|RangeError|Array buffer|OOM/i, "This browser has too little memory for the model."],
];

let loaded = null; // the engine and the checkpoints, which the next run finds
let control = { stopped: true };

self.onmessage = ({ data }) => {
  if (data.kind === "start") start(data).catch((error) => self.postMessage({ kind: "failed", id: data.id, sentence: sentenceOf(error) }));
  else Object.assign(control, data.control);
};

function sentenceOf(error) {
  if (error instanceof LiveError) return error.message;
  const said = `${error?.name} ${error?.message ?? error}`;
  const known = REASONS.find(([pattern]) => pattern.test(said));
  return known?.[1] ?? `The model could not run in this browser: ${said.slice(0, 200)}.`;
}

async function start({ id, place, pair, cards, prompt, maxNewTokens, threshold, graphics }) {
  control.stopped = true;
  const mine = (control = { threshold, stopped: false });
  const post = (...messages) => self.postMessage({ kind: "lines", id, messages });
  const say = (state, sentence) => post({ kind: "state", state, sentence });
  post({ kind: "open", id, lanes: cards });
  const { engine, checkpoints, kept } = await load(place, pair, graphics, (sentence) => say("loading", sentence));
  const lanes = cards.map((card) => open(engine, checkpoints[card.checkpoint], card, prompt, maxNewTokens, mine));
  say("running", `${engine.name} in this browser.`);
  const writing = new Set(lanes);
  while (writing.size) {
    const next = [...writing].reduce((one, other) => (other.lane.seconds < one.lane.seconds ? other : one));
    const { done, value } = await next.passes.next();
    if (done) writing.delete(next);
    post(done ? next.lane.end() : next.lane.add(value));
    await turn();
  }
  const all = lanes.map(({ lane }) => lane);
  const saved = lanes.filter(({ lane }) => lane.records.length).map(({ lane, promptTokens }) => lane.saved(promptTokens));
  if (all.every(({ tokens }) => tokens)) post(...ended(all));
  if (saved.length) self.postMessage({ kind: "finished", text: JSON.stringify(runOf(id, prompt, maxNewTokens, saved)) });
  const about = [`${engine.name} in this browser.`, TAUGHT, pair.note, ...(kept ? [] : [NOT_KEPT])].filter(Boolean).join(" ");
  self.postMessage({ kind: "said", id, sentence: about });
  if (mine.stopped) say("stopped", "Stopped.");
  else say("done", "Done.");
}

function open(engine, { manifest, session, text }, card, prompt, maxNewTokens, mine) {
  const ids = text.encode(prompt);
  if (ids.length + maxNewTokens > manifest.longest) throw new LiveError("The prompt is too long for this model: shorten it.");
  const model = new Model(engine.ort, session, manifest);
  const passes = decode(model, ids, { ...card.settings, family: card.family, max_new_tokens: maxNewTokens }, mine);
  return { lane: new Lane(card, text, manifest.stops), passes, promptTokens: ids.length };
}

// Messages to this worker are heard between two passes.
function turn() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => (port1.close(), resolve());
    port2.postMessage(null);
  });
}

// What the lanes say of each other once all have ended.
function ended(lanes) {
  const baseline = lanes.find(({ card }) => card.family === "ar") ?? lanes[0];
  const others = lanes.filter((lane) => lane !== baseline);
  const ratios = Object.fromEntries(others.map((lane) => [lane.card.key, lane.over(baseline)]));
  return [...comparisons(baseline, others), { kind: "speedup", ratios, baseline: baseline.card.key }];
}

function runOf(id, prompt, maxNewTokens, lanes) {
  const question = { prompt, max_new_tokens: maxNewTokens, problem: null };
  return { schema: 1, kind: "mars-lens-run", id, date: new Date().toISOString(), title: "", note: "", question, lanes };
}

// The engine and the checkpoints of a pair, in place of those of another one; a graphics device that cannot run them is
// given up for the processor. Checkpoints of one graph (mars_site/onnx.py) share its session.
async function load(place, pair, graphics, say) {
  if (loaded?.key === pair.key) return loaded;
  const others = Object.values(loaded?.sessions ?? {});
  loaded = null;
  for (const session of others) await session.release();
  const files = {};
  let kept = true;
  let done = 0;
  const read = async (folder, wanted, total) => {
    const got = await readFiles(new URL(folder, place), wanted, (bytes) => {
      done += bytes;
      say(`Loading ${(done / MEGABYTE).toFixed(1)} of ${(total / MEGABYTE).toFixed(1)} MB …`);
    });
    kept &&= got.kept;
    return got.found;
  };
  const names = graphics ? ["webgpu", "wasm"] : ["wasm"];
  for (const name of names) {
    try {
      const build = self.liveEngines[name];
      const total = pair.bytes + build.bytes;
      for (const { path, manifest } of pair.checkpoints) files[path] ??= await read(path, manifest.files, total);
      const engine = await openEngine(name, build, await read("live/", build.files, total), place);
      say("Preparing the model …");
      const [checkpoints, sessions, texts] = [{}, {}, {}];
      for (const { name: each, path, manifest } of pair.checkpoints) {
        sessions[path] ??= await warm(engine.ort, await openSession(engine.ort, manifest, files[path], { executionProviders: [name] }), manifest);
        texts[path] ??= new Text(self.liveTokenizer, JSON.parse(new TextDecoder().decode(files[path]["tokenizer.json"])), manifest);
        checkpoints[each] = { manifest, session: sessions[path], text: texts[path] };
      }
      loaded = { key: pair.key, engine, checkpoints, sessions, kept };
      return loaded;
    } catch (error) {
      if (error instanceof LiveError || name === "wasm") throw error;
    }
  }
  return null;
}

// Slow first passes count in no lane.
async function warm(ort, session, manifest) {
  const model = new Model(ort, session, manifest);
  for (const columns of WARM_UP) await model.read(Array(columns).fill(0));
  return session;
}

async function openEngine(name, build, files, place) {
  const ort = await build.load();
  const [packed] = Object.values(files);
  ort.env.wasm.wasmBinary = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
  ort.env.wasm.wasmPaths = { mjs: new URL(build.glue, place).href };
  const threads = self.crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency) : 1;
  ort.env.wasm.numThreads = threads;
  const title = name === "webgpu" ? "WebGPU" : `WebAssembly, ${threads} thread${threads === 1 ? "" : "s"},`;
  return { ort, name: title };
}
