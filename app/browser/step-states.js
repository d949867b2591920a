// What is known before each forward pass of a lane, from the passes before it: what to read next, and which drafts wait.

const COUNTED = new Set(["decode", "verify", "denoise"]); // as in mars/metrics.py
const SURE = 0.5; // how probable a draft of the linear layout must be (mars/decoding/self_speculative.py)

const NARROW = 3;

function masksOf(lane) {
  return lane.settings.block_size - (lane.settings.extra_proposal ? 0 : 1);
}

// The masks of the narrow layout, which is one of those that auto may take (mars/decoding/layouts.py).
function narrowOf(lane) {
  const few = Math.min(NARROW, Math.floor((masksOf(lane) - 1) / 2));
  return lane.settings.layout === "auto" ? Math.max(0, few) : 0;
}

function sourced(row, source) {
  return row.proposals.filter((proposal) => proposal.source === source).length;
}

function acceptedIds(record) {
  const row = record.rows[0];
  return row.proposals.slice(0, row.accepted).map((proposal) => proposal.token_id);
}

// The state before each record: `written` tokens of the response, `pending` of them to read, the last one included,
// `left` what the pass before left behind it, `drafts` and `draftPending` the same of a draft model, `cached` tokens of
// the prompt that are read.
function passStates(lane) {
  let state = { written: 0, pending: 1, left: [], drafts: [], draftPending: 1, cached: 0 };
  return lane.records.map((record) => {
    const before = state;
    state = stateAfter(lane, record, record.rows[0], before);
    return before;
  });
}

function stateAfter(lane, record, row, before) {
  if (record.phase === "prefill") {
    // With a draft model the prompt is read twice.
    return { ...before, cached: (before.cached + record.query_tokens) % Math.max(1, lane.prompt_tokens - 1) };
  }
  if (record.phase === "draft") return { ...before, ...afterDraft(lane, row, before) };
  if (!COUNTED.has(record.phase)) return before;
  const verified = Math.min(row.accepted, 1 + sourced(row, "draft"));
  const written = before.written + row.accepted;
  const cached = Math.min(before.written + before.drafts.length - before.draftPending, before.written + verified - 1);
  return {
    ...before,
    written,
    pending: { sliding_window: row.accepted, speculative: row.accepted - verified + 1 }[lane.decoder] ?? 1,
    left: leftBehind(lane, record, row),
    drafts: [],
    draftPending: written - cached,
  };
}

// What stands behind the last token afterwards. Exact decoding takes what masks proposed: nothing after a miss of the
// linear layout, and without one only what is `sure`. Proposals past the length limit are not recorded: a null token.
function leftBehind(lane, record, row) {
  const rest = row.proposals.slice(row.accepted);
  if (lane.decoder !== "self_speculative") return rest.map((proposal) => ({ token: proposal.token_id, sure: true }));
  const masks = masksOf(lane);
  const quadratic = record.query_tokens === (masks + 1) ** 2;
  const takes = (proposal) => quadratic || lane.settings.score !== "probability" || proposal.score >= SURE;
  const left = rest
    .filter((proposal) => proposal.source === "mask")
    .map((proposal) => ({ token: proposal.token_id, sure: takes(proposal) }));
  while (quadratic && left.length < masks) left.push({ token: null, sure: true });
  return left;
}

function afterDraft(lane, row, before) {
  const { draft_tokens, max_new_tokens } = lane.settings;
  const room = Math.min(draft_tokens, max_new_tokens - before.written - 1) - before.drafts.length;
  const taken = Math.min(acceptedAt(lane, row, row.threshold, 1), Math.max(0, room));
  const drafted = row.proposals.slice(0, taken).map((proposal) => proposal.token_id);
  return { drafts: [...before.drafts, ...drafted], draftPending: drafted.length };
}
