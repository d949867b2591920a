// One lane of a run, ready to be stepped through: its passes with their numbers, their outcomes in words, the columns
// that each of them read, and the tokens that another threshold would have accepted.

import { decoderOf, isCounted, isSurerWhenLower } from "../shared/decoders.js";
import { noMask, sentenceOf } from "../shared/reasons.js";
import { bandNode, cut, plural, sureness, tokenNode, visiblePiece } from "../shared/tokens.js";
import { thresholdless, wouldAccept } from "./what-if.js";

const NAMES = { prefill: "Prompt", commit: "Cache", draft: "Draft" };

export class SteppedLane {
  constructor(lane) {
    this.lane = lane;
    let number = 0;
    let written = 0;
    this.passes = lane.records.map((record, index) => {
      const row = record.rows[0];
      const counted = isCounted(record.phase);
      const name = counted ? `Pass ${number + 1}` : NAMES[record.phase];
      const pass = { index, record, row, counted, name, number: counted ? ++number : null, from: written };
      written += row.accepted;
      return pass;
    });
    this.writing = this.passes.filter(({ counted }) => counted); // the passes that have a number
    this.family = decoderOf(lane.decoder).family;
    this.thresholdless = thresholdless(lane);
    const scores = this.passes.flatMap((pass) => pass.row.proposals.map((proposal) => proposal.score));
    // Bars are drawn from 0 to this: probabilities and margins end at 1, entropies where they end.
    this.top = isSurerWhenLower(lane.settings.score) ? scores.reduce((most, score) => Math.max(most, score), 0.5) : 1;
    this.highest = Math.ceil(this.top); // of the thresholds to try
  }

  // What the pass wrote, as Compare shows it; `proposed` says in its sign what proposed the tokens.
  band({ number, from, row }, proposed) {
    const tokens = row.proposals.slice(0, row.accepted).map(({ token_id: token, score, source }, place) => {
      const kind = source === "random" || source === "copy" ? "draft" : source;
      const sure = sureness(score, this.lane.settings.score);
      return tokenNode(this.lane.written[from + place], { kind, sure, first: place === 0, ends: this.ends(token) });
    });
    return bandNode(number, tokens, proposed);
  }

  // A token as a word in a box: nothing in it may be invisible.
  label(token) {
    if (this.ends(token)) return "end";
    const piece = this.lane.pieces[token];
    return piece ? visiblePiece(piece) : `#${token}`;
  }

  ends(token) {
    return this.lane.stop_ids.includes(token);
  }

  // The outcome of the pass in a sentence; `shape` are its columns.
  outcome(pass, shape) {
    const { record, row } = pass;
    const read = record.query_tokens.toLocaleString("en-US");
    if (record.phase === "prefill") return `${read} tokens of the prompt go into the cache; nothing is proposed.`;
    if (record.phase === "commit") return `${read} accepted tokens go into the cache; nothing is proposed.`;
    const tokens = plural(row.accepted, "token");
    if (record.phase === "verify" && row.threshold === null && shape.known) {
      const drafts = shape.columns.filter(({ kind }) => kind === "draft" || kind === "noise").length;
      const right = row.trace.reasons.filter((reason) => reason === "right").length;
      const copied = shape.columns.filter((column) => column.copied).length;
      const from = copied ? ` (${copied === drafts ? "all" : copied} copied)` : "";
      const what = `${right} of ${plural(drafts, "draft")}${from}`;
      return drafts ? `${what} right, so ${tokens} accepted.` : `No drafts to verify, ${tokens} accepted.`;
    }
    const said = plural(row.proposals.length, "proposal");
    if (record.phase === "draft") {
      const kept = row.trace?.reasons.filter((reason) => reason === "kept").length ?? row.proposals.length;
      const part = kept < row.proposals.length ? `${kept} of ` : "";
      return `The draft model writes: ${part}${said}, for the next pass to verify.`;
    }
    if (row.proposals.length === 1) {
      const mode = row.threshold === null ? ": one-token mode" : "";
      return `1 token proposed and accepted${mode}.${noMask(this.lane.settings, row.threshold, 1)}`;
    }
    return `${row.accepted} of ${said} accepted${row.accepted < row.proposals.length ? "" : ": all of them"}.`;
  }

  // The number of tokens that the pass at this index would have accepted at `threshold`.
  wouldAccept(index, threshold) {
    const { counted, row } = this.passes[index];
    return counted ? wouldAccept(row, threshold, this.lane.settings.score, this.lane.stop_ids) : 0;
  }

  // Over the whole lane: tokens that the same passes would have accepted, tokens that they did accept, and the passes.
  wouldHave(threshold) {
    const found = { then: 0, now: 0, passes: this.writing.length, changed: 0 };
    for (const { index, row } of this.writing) {
      const accepted = this.wouldAccept(index, threshold);
      found.then += accepted;
      found.now += row.accepted;
      found.changed += accepted !== row.accepted;
    }
    return found;
  }

  reason({ row }, place) {
    const { threshold, proposals } = row;
    const { token_id, source } = proposals[place];
    const none = noMask(this.lane.settings, threshold, proposals.length);
    const about = { score: this.lane.settings.score, threshold, source, accepted: place < row.accepted, none };
    return sentenceOf(row.trace?.reasons[place], { ...about, ends: this.ends(token_id) });
  }

  // A proposal in words, for those who cannot see the picture.
  describe(pass, place) {
    const { token_id: token, score } = pass.row.proposals[place];
    const kept = pass.row.trace?.reasons[place] === "kept";
    const fate = kept ? "a draft for the next pass" : place < pass.row.accepted ? "accepted" : "not accepted";
    const name = this.lane.settings.score;
    return `${this.label(token)}: ${name} ${cut(score, 2, name)}, ${fate}`;
  }
}

// The input of each forward pass of a lane: its columns in order, and who sees whom, as its record says
// (`Trace` in mars/records.py).
//
// A column reads a `kind`: "real" (a token of the text), "draft", "mask", "noise", or "none" (the place of a draft that
// was not there); `token` is its id, and a draft may be `copied` from further up in the text. `position` counts from
// the beginning of the prompt, `depth` from the last token that the model knew, the root. It stands behind the column
// `after` (-1: behind the prefix alone). `proposal` is the number of the proposal that was read off it, null where none
// was.

const KINDS = { clean: "real", draft: "draft", copy: "draft", mask: "mask", random: "noise", absent: "none" };

// The columns of a pass, how many cached tokens stand before them, and whether they form a `tree`.
//
// A run of an earlier version does not say what was read, or filled blocks of masks (`known` is false): its columns are
// the proposals alone.
export function columnsOf({ proposals, trace }) {
  if (!trace || trace.block) {
    const column = ({ source }, depth) => ({ kind: KINDS[source], token: null, depth, proposal: depth });
    const columns = proposals.map(column);
    return { known: false, prefix: null, columns, masks: 0, tree: false };
  }
  const columns = [];
  for (const { reads, ids, after } of trace.spans) {
    ids.forEach((token, place) => {
      const behind = place ? columns.length - 1 : (after ?? -1);
      const position = behind < 0 ? trace.cached : columns[behind].position + 1;
      columns.push({ kind: KINDS[reads], copied: reads === "copy", token, position, after: behind, proposal: null });
    });
  }
  for (const [proposal, column] of trace.columns.entries()) columns[column].proposal = proposal;
  const root = columns[trace.columns[0] ?? columns.length - 1].position;
  for (const column of columns) column.depth = column.position - root;
  const tree = columns.some(({ after }, index) => after !== index - 1);
  const masks = columns.filter(({ kind }) => kind === "mask").length;
  return { known: true, prefix: trace.cached, columns, masks, tree };
}

// Which columns this one sees, as an array of booleans.
export function seenBy({ columns }, query) {
  const seen = Array(columns.length).fill(false);
  for (let column = query; column >= 0; column = columns[column].after) seen[column] = true;
  return seen;
}
