// One lane of a run, ready to be stepped through: its passes with their numbers, and the words for what they did.

import { decoderOf, familyOf } from "../shared/decoders.js";
import { isRefused, sentenceOf } from "../shared/reasons.js";
import { decimals, plural, visiblePiece } from "../shared/tokens.js";
import { columnsOf } from "./columns.js";
import { COUNTED, thresholdless } from "./what-if.js";

const NAMES = { prefill: "Prompt", commit: "Cache", draft: "Draft" };

export class SteppedLane {
  constructor(lane) {
    this.lane = lane;
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
    this.diffuses = decoderOf(lane.decoder).needs === "diffusion";
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
    if (this.diffuses) return this.filled(row);
    const tokens = row.accepted === 1 ? "1 token" : `${row.accepted} tokens`;
    if (record.phase === "verify" && row.threshold === null && shape.known) {
      const drafts = shape.columns.filter(({ kind }) => kind === "draft" || kind === "noise").length;
      const right = Math.min(drafts, row.accepted - 1);
      return drafts ? `${right} of ${drafts} drafts right, so ${tokens} accepted.` : `No drafts to verify, ${tokens} accepted.`;
    }
    const said = row.proposals.length === 1 ? "1 proposal" : `${row.proposals.length} proposals`;
    if (record.phase === "draft") {
      const kept = row.trace?.reasons.filter((reason) => reason === "kept").length ?? row.proposals.length;
      return `The draft model writes: ${kept < row.proposals.length ? `${kept} of ` : ""}${said}, for the next pass to verify.`;
    }
    if (row.proposals.length === 1) return "1 token proposed and accepted: one-token mode.";
    return `${row.accepted} of ${said} accepted${row.accepted < row.proposals.length ? "" : ": all of them"}.`;
  }

  // What a pass over a block filled, and what that accepted.
  filled({ accepted, proposals, trace }) {
    const waiting = "nothing is accepted before the block is full.";
    const tokens = plural(accepted, "token");
    if (!trace) return accepted ? `The block is full: ${tokens} accepted.` : `Masks filled; ${waiting}`;
    const masks = trace.reasons.filter((_, place) => proposals[place].source === "mask");
    const filled = masks.filter((reason) => reason !== "open").length;
    const said = `${filled} of ${plural(masks.length, "mask")} filled`;
    return accepted ? `${said}: the block is full, ${tokens} accepted.` : `${said}; ${waiting}`;
  }

  // The columns of a pass.
  shape(pass) {
    return columnsOf(pass.row);
  }

  // Why a proposal was accepted or not.
  reason({ row }, place) {
    const ends = this.ends(row.proposals[place].token_id) ? "End of the turn. " : "";
    const { threshold } = row;
    const about = { score: this.lane.settings.score, threshold, fills: this.diffuses, accepted: place < row.accepted };
    return ends + sentenceOf(row.trace?.reasons[place], about);
  }

  refuses({ row }, place) {
    return row.trace !== null && row.trace !== undefined && isRefused(row.trace.reasons, place);
  }

  // Whether a proposal that was not accepted stays: a draft of the next pass, or what a block has been filled with.
  keeps({ row }, place) {
    const reason = row.trace?.reasons[place];
    return reason === "kept" || (this.diffuses && Boolean(reason) && !row.accepted && reason !== "open");
  }

  // A proposal in words, for those who cannot see the picture.
  describe(pass, place) {
    const { token_id: token, score } = pass.row.proposals[place];
    const waits = this.diffuses ? "filled, not yet accepted" : "a draft for the next pass";
    const fate = this.keeps(pass, place) ? waits : place < pass.row.accepted ? "accepted" : "not accepted";
    return `${this.label(token)}: ${this.lane.settings.score} ${decimals(score, 2)}, ${fate}`;
  }
}
