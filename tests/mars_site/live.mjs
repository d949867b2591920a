// Runs the decoders of mars_site/browser/live in Node, with the packages that the exported page has: reads {prompts, …} from the
// standard input, and writes the records of each prompt as a line of JSON.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { inflateSync } from "node:zlib";

import { decode } from "../../mars_site/browser/live/decoding.js";
import { Model, openSession } from "../../mars_site/browser/live/model.js";
import { Text } from "../../mars_site/browser/live/text.js";

const { folder, scripts, asked } = JSON.parse(readFileSync(0, "utf8"));
const load = (name) => import(pathToFileURL(scripts[name]).href);
const ort = await load("ort.wasm.min.mjs");
const { Tokenizer } = await load("tokenizers.min.mjs");
const build = "ort-wasm-simd-threaded";
ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmBinary = inflateSync(readFileSync(scripts[`${build}.wasm.z`]));
ort.env.wasm.wasmPaths = { mjs: pathToFileURL(scripts[`${build}.mjs`]).href };
const { checkpoints, ...shared } = JSON.parse(readFileSync(`${folder}/manifest.json`, "utf8"));
const files = Object.fromEntries(Object.keys(shared.files).map((file) => [file, new Uint8Array(readFileSync(`${folder}/${file}`))]));
const session = await openSession(ort, shared, files, { executionProviders: ["wasm"] });
const text = new Text(Tokenizer, JSON.parse(readFileSync(`${folder}/tokenizer.json`, "utf8")), shared);

for (const { name, prompt, settings, thresholds } of asked) {
  const manifest = { ...shared, ...checkpoints.find((each) => each.name === name) };
  const ids = text.encode(prompt);
  const records = [];
  const control = { threshold: thresholds[0] };
  for await (const record of decode(new Model(ort, session, manifest), ids, settings, control)) {
    records.push(record);
    control.threshold = thresholds[records.length % thresholds.length];
  }
  const written = records.flatMap(({ rows: [{ proposals, accepted }] }) => proposals.slice(0, accepted).map((proposal) => proposal.token_id));
  process.stdout.write(`${JSON.stringify({ ids, records, text: text.decode(written) })}\n`);
}
