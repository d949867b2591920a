// A checkpoint that mars/export.py wrote, in ONNX Runtime: the session, which lanes share, and the cache of one lane.

const OUTPUTS = ["entry", "tokens", "probabilities", "entropy"];
const WIDENING = 16; // bits of a float32 that bfloat16 leaves out

// The session of a checkpoint. `files` has the content of each of its files by name, Uint8Arrays.
export function openSession(ort, manifest, files, options) {
  const parts = manifest.shards.map((name) => files[name]);
  const externalData = [{ path: "weights", data: manifest.narrow ? widened(parts) : joined(parts) }];
  return ort.InferenceSession.create(files["model.onnx"], { ...options, externalData });
}

function joined(parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((place, part) => (whole.set(part, place), place + part.length), 0);
  return whole;
}

function widened(parts) {
  const whole = new Uint32Array(parts.reduce((sum, part) => sum + part.length, 0) / 2);
  let place = 0;
  for (const part of parts) {
    const narrow = new Uint16Array(part.buffer, part.byteOffset, part.length / 2);
    for (const value of narrow) whole[place++] = value << WIDENING;
  }
  return new Uint8Array(whole.buffer);
}

// What one lane has read. To rewind is to keep fewer entries: nothing is copied.
export class Model {
  constructor(ort, session, { cache, mask, stops, longest }) {
    Object.assign(this, { ort, session, mask, stops, longest, sizes: cache, cached: 0 });
    this.entrySize = cache.reduce((product, size) => product * size, 1);
    this.cache = new Float32Array(256 * this.entrySize);
  }

  // One causal pass over these columns: for each its most probable tokens, their probabilities, and the entropy.
  async read(ids) {
    const { Tensor } = this.ort;
    const cache = this.cache.subarray(0, this.cached * this.entrySize);
    const output = await this.session.run({
      ids: new Tensor("int64", BigInt64Array.from(ids, BigInt), [ids.length]),
      cache: new Tensor("float32", cache, [this.cached, ...this.sizes]),
    }, OUTPUTS);
    this.entry = output.entry.data;
    const rows = ({ data }) => ids.map((_, n) => Array.from(data.subarray(n * (data.length / ids.length), (n + 1) * (data.length / ids.length)), Number));
    return { tokens: rows(output.tokens), probabilities: rows(output.probabilities), entropy: Array.from(output.entropy.data) };
  }

  // Cache the first `count` columns of the last pass.
  keep(count) {
    const end = (this.cached + count) * this.entrySize;
    if (end > this.cache.length) {
      const larger = new Float32Array(2 * end);
      larger.set(this.cache);
      this.cache = larger;
    }
    this.cache.set(this.entry.subarray(0, count * this.entrySize), this.cached * this.entrySize);
    this.cached += count;
  }
}
