// Block diffusion: masks are filled where they stand, in any order, and a full block is accepted at once. A column sees
// all of its own block, in both directions, and the blocks before it; its `block` says which one it is in.

// What a pass over a block read: the block before it once more where that was just filled, then the block.
function blockColumns(lane, text, record, row) {
  const { block_size: size, use_cache: cached } = lane.settings;
  const begun = lane.prompt_tokens + row.start;
  const first = Math.floor(begun / size) * size;
  const lead = cached ? Math.max(0, record.query_tokens - size) : first;
  const columns = [];
  for (let position = first - lead; position < first + size; position++) {
    const place = position - begun;
    const proposal = row.proposals[place];
    const filled = proposal?.source === "draft";
    columns.push({
      kind: place < 0 ? "real" : filled ? "draft" : "mask",
      token: place < 0 ? (text[position - lane.prompt_tokens] ?? null) : filled ? proposal.token_id : null,
      group: -1,
      depth: place + 1,
      block: Math.floor(position / size),
      proposal: proposal ? place : null,
    });
  }
  return { columns, pending: begun - first + lead };
}

// The whole blocks of the prompt, from the `cached`-th token on.
function promptColumns(lane, cached, count) {
  const columns = Array.from({ length: count }, (_, place) => {
    const block = Math.floor((cached + place) / lane.settings.block_size);
    return { kind: "real", token: null, group: -1, depth: place + 1 - count, block, proposal: null };
  });
  return { columns, pending: count };
}

// When a proposal of this pass was put into its place: "before" it, "now", or "later" than it.
function filledWhen(lane, pass, place) {
  if (pass.row.proposals[place].source === "draft") return "before";
  if (pass.row.accepted) return "now";
  const next = lane.records[pass.index + 1]?.rows[0];
  return next?.start === pass.row.start && next.proposals[place]?.source === "draft" ? "now" : "later";
}

function fillingOutcome(lane, { record, row, index }) {
  const when = row.proposals.map((_, place) => filledWhen(lane, { record, row, index }, place));
  const now = when.filter((moment) => moment === "now").length;
  const filled = `${now} of ${plural(when.filter((moment) => moment !== "before").length, "mask")} filled`;
  if (!row.accepted) return `${filled}; nothing is accepted before the block is full.`;
  return `${filled}: the block is full, ${row.accepted === 1 ? "1 token" : `${row.accepted} tokens`} accepted.`;
}

function fillingReason(lane, pass, place) {
  const { row } = pass;
  if (row.accepted && place >= row.accepted) return "Behind the end of the turn.";
  const moment = filledWhen(lane, pass, place);
  if (moment === "before") return "Filled in an earlier pass; what is filled stays.";
  if (moment === "later") return "Still a mask: others were surer, and its score does not reach τ.";
  return row.threshold === null
    ? "Filled in this pass: the surest of the masks."
    : "Filled in this pass: the surest of the masks, or its score reaches τ.";
}
