// One lane of a run, ready to be stepped through: its passes with their numbers, and the words for what they did.

const NAMES = { prefill: "Prompt", commit: "Cache", draft: "Draft" };

// As the lanes of Compare are told apart: one token a pass, a threshold, or drafts that are verified.
function familyOf(lane) {
  if (lane.decoder === "autoregressive") return "ar";
  const drafted = lane.decoder === "speculative" && !lane.settings.continuation;
  return drafted || lane.decoder === "self_speculative" || lane.decoder === "jacobi" ? "exact" : "masks";
}

class SteppedLane {
  constructor(lane) {
    this.lane = lane;
    this.reader = new ColumnReader(lane);
    let number = 0;
    let written = 0;
    this.passes = lane.records.map((record, index) => {
      const row = record.rows[0];
      const counted = COUNTED.has(record.phase);
      const pass = { index, record, row, counted, number: counted ? ++number : null, from: written };
      written += row.accepted;
      return { ...pass, to: written };
    });
    this.count = number;
    this.family = familyOf(lane);
    this.diffuses = lane.decoder === "block_diffusion";
    this.byThreshold = thresholdless(lane) === "";
    const scores = this.passes.flatMap((pass) => pass.row.proposals.map((proposal) => proposal.score));
    // Bars are drawn from 0 to this: probabilities and margins end at 1, entropies wherever they end.
    this.top = lane.settings.score === "entropy" ? scores.reduce((most, score) => Math.max(most, score), 0.5) : 1;
  }

  name(pass) {
    return pass.counted ? `Pass ${pass.number}` : NAMES[pass.record.phase];
  }

  // The index of the pass with this number, or of the one that wrote token `token`.
  find({ number, token }) {
    const found = this.passes.find((pass) => (number ? pass.number === number : pass.counted && token < pass.to));
    return found ? found.index : 0;
  }

  piece(token) {
    return this.lane.pieces[token] ?? "";
  }

  // A token as a word in a box: nothing in it may be invisible.
  label(token) {
    const piece = this.piece(token);
    if (this.lane.stop_ids.includes(token)) return "end";
    if (!piece) return `#${token}`;
    return visiblePiece(piece);
  }

  ends(token) {
    return this.lane.stop_ids.includes(token);
  }

  // What the pass did, in a sentence; `shape` are its columns.
  outcome(pass, shape) {
    const { record, row } = pass;
    const read = record.query_tokens.toLocaleString("en-US");
    if (record.phase === "prefill") return `${read} tokens of the prompt go into the cache; nothing is proposed.`;
    if (record.phase === "commit") return `${read} accepted tokens go into the cache; nothing is proposed.`;
    if (this.diffuses) return fillingOutcome(this.lane, pass);
    const tokens = row.accepted === 1 ? "1 token" : `${row.accepted} tokens`;
    if (record.phase === "verify" && row.threshold === null) {
      const drafts = shape.columns.filter(({ kind, group }) => group < 0 && (kind === "draft" || kind === "noise")).length;
      const right = Math.min(drafts, row.accepted - 1);
      return drafts ? `${right} of ${drafts} drafts right, so ${tokens} accepted.` : `No drafts to verify, ${tokens} accepted.`;
    }
    const said = row.proposals.length === 1 ? "1 proposal" : `${row.proposals.length} proposals`;
    if (record.phase === "draft") return `The draft model writes: ${said}, for the next pass to verify.`;
    if (row.proposals.length === 1) return "1 token proposed and accepted: one-token mode.";
    return `${row.accepted} of ${said} accepted${row.accepted < row.proposals.length ? "" : ": all of them"}.`;
  }

  // Why a proposal was accepted or not.
  reason(pass, place) {
    const { row } = pass;
    const proposal = row.proposals[place];
    const ends = this.ends(proposal.token_id) ? "End of the turn. " : "";
    if (this.diffuses) return ends + fillingReason(this.lane, pass, place);
    if (place < row.accepted) return ends + this.whyAccepted(pass, place);
    if (row.finish_reason === "length" && this.meets(row, proposal)) return `${ends}Not needed: the length limit was reached.`;
    if (this.waits(pass, place)) return `${ends}Kept as a draft: the next pass reads it and verifies it.`;
    if (place > row.accepted) return `${ends}Behind a refused proposal: acceptance goes from left to right.`;
    if (this.ends(row.proposals[place - 1].token_id)) return "Behind the end of the turn.";
    if (row.threshold === null) return `${ends}It read a draft that was not what the model says.`;
    return `${ends}Refused: its score does not reach τ.`;
  }

  // Whether a proposal that was not accepted is what the next pass verifies.
  waits(pass, place) {
    const { record, row } = pass;
    if (this.diffuses) return !row.accepted && filledWhen(this.lane, pass, place) !== "later";
    if (record.phase === "draft") return true;
    if (record.phase !== "verify" || row.threshold !== null || place < row.accepted || row.finish_reason) return false;
    return this.lane.decoder === "jacobi" || (this.lane.decoder === "self_speculative" && row.proposals[place].source === "mask");
  }

  whyAccepted(pass, place) {
    const { source } = pass.row.proposals[place];
    if (place === 0) return "It read only real tokens: the autoregressive token, always accepted.";
    if (source === "mask") return "It read masks; accepted because its score reaches τ.";
    return "It read drafts, and all of them were what the model itself says: exact.";
  }

  // A proposal in words, for those who cannot see the picture.
  describe(pass, place) {
    const { token_id: token, score } = pass.row.proposals[place];
    const waits = this.diffuses ? "filled, not yet accepted" : "a draft for the next pass";
    const fate = this.waits(pass, place) ? waits : place < pass.row.accepted ? "accepted" : "not accepted";
    return `${this.label(token)}: ${this.lane.settings.score} ${decimals(score, 2)}, ${fate}`;
  }

  meets(row, proposal) {
    return row.threshold === null || meets(proposal.score, row.threshold, this.lane.settings.score);
  }
}
