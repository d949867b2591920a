// One lane of a live run: from its records to the messages that the stage draws (app/compare/stream.py) and the lane of a
// saved run (app/runs/run.py).

import { TextPieces } from "./text.js";

export class Lane {
  // `card` introduces it (mars_site/live.py); `text` is the tokenizer of its checkpoint.
  constructor(card, text, stops) {
    Object.assign(this, { card, text, stops, records: [], written: [], ids: [], reason: null });
    Object.assign(this, { tokens: 0, passes: 0, seconds: 0 });
    this.pieces = new TextPieces((ids) => text.decode(ids));
  }

  // The message of one more record.
  add(record) {
    const [row] = record.rows;
    this.records.push(record);
    this.seconds += record.seconds;
    this.tokens += row.accepted;
    this.reason = row.finish_reason ?? this.reason;
    if (!row.accepted) return { kind: "counts", lane: this.card.key, counts: this.counts() };
    this.passes += 1;
    const accepted = row.proposals.slice(0, row.accepted);
    this.ids.push(...accepted.map((proposal) => proposal.token_id));
    const texts = accepted.map((proposal) => this.pieces.add(proposal.token_id));
    this.written.push(...texts);
    return this.pass(record, row, accepted, texts);
  }

  pass({ seconds }, row, accepted, texts) {
    const counts = this.counts();
    const token = ({ token_id: id, score, source, alternatives }, n) => [texts[n], score, source, this.stops.includes(id), source, alternatives.map(([other, share]) => [this.text.piece(other), share])];
    const ghost = ({ token_id: id, score, source }) => [this.text.piece(id), score, source];
    const masks = row.trace.spans.filter(({ reads }) => reads === "mask").reduce((sum, { ids }) => sum + ids.length, 0);
    return {
      kind: "pass",
      lane: this.card.key,
      number: this.passes,
      start: row.start,
      threshold: row.threshold,
      window: row.proposals.length,
      tokens: accepted.map(token),
      ghosts: row.proposals.slice(row.accepted).map(ghost),
      reasons: row.trace.reasons,
      masks,
      seconds,
      at: this.seconds,
      counts,
    };
  }

  counts() {
    const { tokens, passes, seconds } = this;
    return { tokens, passes, tokensPerForward: passes ? tokens / passes : 0, seconds, tokensPerSecond: this.speed, shared: false };
  }

  get speed() {
    return this.seconds ? this.tokens / this.seconds : 0;
  }

  // The time in which the other would write as many tokens, at its pace behind its prompt, ÷ that of this one (app/compare/lane.py).
  over(other) {
    const read = other.records.filter(({ phase }) => phase === "prefill").reduce((sum, one) => sum + one.seconds, 0);
    return (read + ((other.seconds - read) / other.tokens) * this.tokens) / this.seconds;
  }

  // The message that closes the lane.
  end() {
    this.reason ??= "cancelled";
    const tail = this.pieces.flush();
    if (tail) this.written[this.written.length - 1] += tail;
    return { kind: "end", lane: this.card.key, reason: this.reason, tail };
  }

  saved(promptTokens) {
    const { key, title, checkpoint, decoder, settings: chosen } = this.card;
    const { checkpoint: _, decoder: __, ...settings } = chosen;
    const named = new Set();
    for (const { rows: [{ proposals, trace }] } of this.records) {
      for (const { token_id: id, alternatives } of proposals) [id, ...alternatives.map(([other]) => other)].forEach((each) => named.add(each));
      for (const { reads, ids } of trace.spans) if (reads !== "mask") ids.forEach((id) => named.add(id));
    }
    const pieces = Object.fromEntries([...named].sort((one, other) => one - other).map((id) => [id, this.text.piece(id)]));
    const facts = { key, title, checkpoint, decoder, settings, prompt_tokens: promptTokens, text: this.text.decode(this.ids), written: this.written };
    return { ...facts, right: null, finish_reason: this.reason, stop_ids: this.stops, pieces, records: this.records, earlier: [] };
  }
}

// What the texts of lanes that ended say of each other: where each first differs from the baseline's, or that it is equal.
export function comparisons(baseline, others) {
  return others.map((lane) => {
    const [one, two] = [baseline.written.join(""), lane.written.join("")];
    if (one === two) return { kind: "same", lanes: [baseline.card.key, lane.card.key] };
    let common = 0;
    while (common < Math.min(one.length, two.length) && one[common] === two[common]) common += 1;
    const tokens = { [baseline.card.key]: tokenAt(baseline, common), [lane.card.key]: tokenAt(lane, common) };
    return { kind: "difference", tokens, baseline: baseline.card.key };
  });
}

// The token that holds this character of the text, the last one behind its end.
function tokenAt({ written }, place) {
  let end = 0;
  const found = written.findIndex((piece) => (end += piece.length) > place);
  return found < 0 ? written.length - 1 : found;
}
