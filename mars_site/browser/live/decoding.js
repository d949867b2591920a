// The decoders of the page without a server: one token a pass, the paper's sliding window, and exact decoding with drafts
// of masks (the linear layout). mars/reference.py says the same in Python, and is what tests compare this with.
//
// `model` reads columns behind its cache and keeps entries of them (live/model.js); a pass gives the record that a decoder
// in Python gives (mars/records.py), trace included.

const SURE = 0.5; // how probable a draft must be (SURE in mars/decoding)
const FULL = 5; // alternatives of a proposal

// Scores of column n of a pass (appendix D of the paper), and which of them meet a threshold.
const SCORES = {
  probability: ({ probabilities }, n) => probabilities[n][0],
  margin: ({ probabilities }, n) => probabilities[n][0] - probabilities[n][1],
  entropy: ({ entropy }, n) => entropy[n],
};
const meets = (value, threshold, score) => (score === "entropy" ? value <= threshold : value >= threshold);

// What a decoder of a family (mars/decoders.py) spends on a pass: the masks, and whether their proposals become drafts that the next pass verifies.
const DECODERS = {
  ar: { masks: () => 0, phase: "decode", threshold: () => null },
  masks: {
    masks: ({ masks, room, threshold }) => (threshold === null ? 0 : Math.min(masks, room - 1)),
    phase: "decode",
    threshold: (control) => control.threshold,
  },
  exact: { masks: ({ masks }) => masks, phase: "verify", threshold: () => null },
};

// The passes that answer a prompt, token ids. `settings`: family, block_size, score, max_new_tokens; `control.threshold`
// is read once a pass, so that it may move, and no pass follows once `control.stopped` is set.
export async function* decode(model, prompt, settings, control) {
  const { masks, phase, threshold: thresholdOf } = DECODERS[settings.family];
  const verifies = phase === "verify";
  let written = 0;
  let clean = [prompt.at(-1)]; // real tokens that are not cached yet
  let drafts = [];
  let index = 0;
  if (prompt.length > 1) yield await prefill(model, prompt.slice(0, -1), thresholdOf(control), index++);
  while (!control.stopped) {
    const threshold = thresholdOf(control);
    const room = settings.max_new_tokens - written;

    // 1. Read the real tokens, the drafts and the masks in one causal pass. The last real token predicts the next token,
    //    each column behind it the one after.
    const count = masks({ masks: settings.block_size - 1, room, threshold });
    const { cached } = model;
    const columns = [...clean, ...drafts, ...Array(count).fill(model.mask)];
    const began = performance.now();
    const read = await model.read(columns);
    const seconds = (performance.now() - began) / 1000;
    const all = proposed(read, clean.length - 1, drafts.length, verifies ? "probability" : settings.score).slice(0, room);

    // 2. Accept from the left: the first always, drafts that are right, proposals of masks that meet the threshold.
    const fits = all.map(({ score }, n) => n === 0 || (verifies ? drafts[n - 1] === all[n - 1].token_id : meets(score, threshold, settings.score)));
    const accepted = prefix(all, fits, model.stops);
    const missed = verifies && accepted <= drafts.length;
    const proposals = missed ? all.slice(0, 1 + drafts.length) : all;
    const tokens = proposals.slice(0, accepted).map((proposal) => proposal.token_id);
    const ended = model.stops.includes(tokens.at(-1));
    written += accepted;
    const done = ended ? "stop" : written === settings.max_new_tokens ? "length" : null;

    // 3. What was read of real tokens stays in the cache. In exact decoding these are the drafts too that were right, and
    //    what the masks behind them propose is drafted next; behind a wrong draft they have read a wrong text.
    const next = verifies && !missed ? sure(read, clean.length - 1 + accepted, count) : [];
    const reasons = proposals.map((_, n) => reasonOf(n, { accepted, ended, verifies, kept: next.length, drafts: drafts.length }));
    const trace = { cached, spans: spans({ clean, draft: drafts, mask: columns.slice(columns.length - count) }), columns: proposals.map((_, n) => clean.length - 1 + n), reasons, block: 0 };
    const row = { row: 0, start: written - accepted, proposals, accepted, threshold, finish_reason: done, trace };
    model.keep(clean.length + (verifies ? accepted - 1 : 0));
    clean = verifies ? tokens.slice(-1) : tokens;
    drafts = next;
    yield { index: index++, phase, seconds, query_tokens: columns.length, rows: [row] };
    if (done) return;
  }
}

async function prefill(model, ids, threshold, index) {
  const began = performance.now();
  await model.read(ids);
  const seconds = (performance.now() - began) / 1000;
  model.keep(ids.length);
  const trace = { cached: 0, spans: spans({ clean: ids }), columns: [], reasons: [], block: 0 };
  const row = { row: 0, start: 0, proposals: [], accepted: 0, threshold, finish_reason: null, trace };
  return { index, phase: "prefill", seconds, query_tokens: ids.length, rows: [row] };
}

// The proposals from column `root` on, the last real token; so many drafts stand behind it, then masks.
function proposed(read, root, drafts, score) {
  return read.tokens.slice(root).map((tokens, n) => ({
    token_id: tokens[0],
    score: SCORES[score](read, root + n),
    source: n === 0 ? "clean" : n <= drafts ? "draft" : "mask",
    alternatives: tokens.slice(0, FULL).map((token, place) => [token, read.probabilities[root + n][place]]),
  }));
}

// How many are accepted: the first, then those that fit, up to a stop.
function prefix(proposals, fits, stops) {
  let count = 1;
  while (count < proposals.length && fits[count] && !stops.includes(proposals[count - 1].token_id)) count += 1;
  return count;
}

// The drafts that masks from this column on propose: from the left, as long as they are sure.
function sure(read, column, count) {
  const all = read.tokens.slice(column, column + count).map(([token]) => token);
  const unsure = all.findIndex((_, n) => read.probabilities[column + n][0] < SURE);
  return unsure < 0 ? all : all.slice(0, unsure);
}

// Why proposal n was accepted or not (Reason in mars/records.py).
function reasonOf(n, { accepted, ended, verifies, kept, drafts }) {
  if (n < accepted) return n === 0 ? "first" : verifies ? "right" : "met";
  if (ended) return "ended";
  if (!verifies) return n === accepted ? "below" : "behind";
  if (n < accepted + kept) return "kept";
  return n > drafts ? "unsure" : "wrong draft";
}

// The columns of a pass by what they read, each kind behind the one before.
function spans(kinds) {
  let end = 0;
  return Object.entries(kinds).filter(([, ids]) => ids.length).map(([reads, ids]) => {
    const after = end ? end - 1 : null;
    end += ids.length;
    return { reads, ids, after };
  });
}
