// The facts of each decoder: the table of mars/decoders.py, which every page of ours carries as data.

let known = null;

const table = () => (known ??= JSON.parse(document.getElementById("lens-decoders").textContent));

// The facts of this decoder, its family among them: one token a pass, a threshold, or drafts that are verified. A file
// may name one that is not in the table.
export function decoderOf(name) {
  const { decoders } = table();
  return Object.hasOwn(decoders, name) ? decoders[name] : { family: "masks", needs: "causal" };
}

// Whether passes of this phase count in tokens per forward.
export const isCounted = (phase) => table().counted.includes(phase);

// Whether a lower score is surer: entropies are, in nats, which have no upper end. Other scores go from 0 to 1.
export const isSurerWhenLower = (score) => table().surer_when_lower.includes(score);
