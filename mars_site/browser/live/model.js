// A graph that mars_site/onnx.py wrote, in ONNX Runtime: the session, which lanes share, and the cache of one lane.

const OUTPUTS = ["entry", "tokens", "probabilities", "entropy"];
const BLOCK = 32; // 8-bit weights that share a scale (BLOCK in mars_site/onnx.py)

// The session of a graph. `files` has the content of each of its files by name, Uint8Arrays.
export function openSession(ort, manifest, files, options) {
  const externalData = [{ path: "weights", data: widened(joined(manifest.shards.map((name) => files[name])), manifest.weights) }];
  return ort.InferenceSession.create(files["model.onnx"], { ...options, externalData });
}

function joined(parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((place, part) => (whole.set(part, place), place + part.length), 0);
  return whole;
}

// The weights in float32, in which the graph computes.
function widened(bytes, weights) {
  const all = new Float32Array(weights.reduce((sum, [, count]) => sum + count, 0));
  let [from, to] = [0, 0];
  const take = (size) => bytes.slice(from, (from += size)).buffer;
  for (const [encoding, count] of weights) {
    const values = all.subarray(to, (to += count));
    if (encoding === "float32") values.set(new Float32Array(take(4 * count)));
    else if (encoding === "bfloat16") widen(new Uint16Array(take(2 * count)), values);
    else {
      const eight = new Int8Array(take(count));
      const scales = new Float32Array(count / BLOCK);
      widen(new Uint16Array(take(2 * scales.length)), scales);
      for (let n = 0; n < count; n += 1) values[n] = eight[n] * scales[Math.floor(n / BLOCK)];
    }
  }
  return new Uint8Array(all.buffer);
}

// bfloat16 is float32 without its last 16 bits.
function widen(narrow, values) {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  for (let n = 0; n < narrow.length; n += 1) bits[n] = narrow[n] << 16;
}

// What one lane has read. To rewind is to keep fewer entries: nothing is copied.
export class Model {
  constructor(ort, session, { cache, mask, stops, longest, choice }) {
    Object.assign(this, { ort, session, mask, stops, longest, sizes: cache, cached: 0 });
    this.entrySize = cache.reduce((product, size) => product * size, 1);
    this.cache = new Float32Array(256 * this.entrySize);
    this.choice = choice.length ? { choice: new ort.Tensor("float32", Float32Array.from(choice), [choice.length]) } : {};
  }

  // One causal pass over these columns: for each its most probable tokens, their probabilities, and the entropy.
  async read(ids) {
    const { Tensor } = this.ort;
    const cache = this.cache.subarray(0, this.cached * this.entrySize);
    const output = await this.session.run({
      ids: new Tensor("int64", BigInt64Array.from(ids, BigInt), [ids.length]),
      cache: new Tensor("float32", cache, [this.cached, ...this.sizes]),
      ...this.choice,
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
