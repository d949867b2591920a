// The files of a checkpoint and of the engine: from the browser's cache, else from beside the page, with their hashes.

import { LiveError } from "./text.js";

const CUT = "The download of the model was cut off: press Run live to try again.";
const WRONG = "A file of the model is not the one that this page was made with: reload the page.";
const UNSAFE = "This browser checks files only on https or localhost: open the page there to run it live.";

// Content by name, Uint8Arrays, of `files`: {name: {bytes, sha256}} below `place`. `loaded` hears how many bytes came.
// `kept` is false if the browser refuses to store them, so that the next visit loads them again.
export async function readFiles(place, files, loaded) {
  if (!globalThis.crypto?.subtle) throw new LiveError(UNSAFE);
  const store = await globalThis.caches?.open("mars-lens live").catch(() => null);
  let kept = Boolean(store);
  const found = {};
  for (const [name, { bytes, sha256 }] of Object.entries(files)) {
    const address = new URL(name, place);
    const key = `${address.href}?${sha256}`;
    const known = await store?.match(key).catch(() => null);
    if (known) {
      found[name] = new Uint8Array(await known.arrayBuffer());
      loaded(bytes);
      continue;
    }
    found[name] = await download(address, bytes, loaded);
    if ((await hashOf(found[name])) !== sha256) throw new LiveError(WRONG);
    if (store) kept = await store.put(key, new Response(found[name])).then(() => kept, () => false);
  }
  return { found, kept };
}

async function download(address, bytes, loaded) {
  const whole = new Uint8Array(bytes);
  let place = 0;
  try {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(String(answer.status));
    for (const reader = answer.body.getReader(); ;) {
      const { done, value } = await reader.read();
      if (done) break;
      whole.set(value, place);
      place += value.length;
      loaded(value.length);
    }
  } catch {
    throw new LiveError(CUT);
  }
  if (place !== bytes) throw new LiveError(CUT);
  return whole;
}

async function hashOf(content) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", content));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
