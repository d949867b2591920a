// What each forward pass of a lane fed the model: its columns in order, and who sees whom, from the run file alone.
//
// A column reads a `kind`: "real" (a token of the text), "draft", "mask", "noise", or "none" (the place of a draft that
// was not there); `token` is its id, null where the file does not say. `depth` counts behind the last real token, the
// root. `group` is -1 on the chain that holds the text; masks of a tree belong to the group behind so many drafts.
// `proposal` is the number of the proposal that was read off the column, null where none was recorded.

// Whether column `query` reads column `key`: the chain is causal and sees no other group; a group sees the chain up to
// its draft, and itself causally. Without groups this is the causal mask. Blocks see each other from left to right.
function sees(columns, query, key) {
  const from = columns[query];
  const to = columns[key];
  if (from.block !== undefined) return to.block <= from.block;
  if (to.group < 0) return to.depth <= (from.group < 0 ? from.depth : from.group);
  return to.group === from.group && to.depth <= from.depth;
}

const MOST_COLUMNS = 4500; // 65 squared and then some: a file may claim any number

class ColumnReader {
  constructor(lane) {
    this.lane = lane;
    this.masks = masksOf(lane);
    this.ids = lane.records.flatMap((record) => acceptedIds(record));
    this.states = passStates(lane);
  }

  // The columns of pass `index`, how many cached tokens stand before them, and whether they form a tree.
  at(index) {
    const record = this.lane.records[index];
    const row = record.rows[0];
    this.state = this.states[index];
    this.text = this.ids.slice(0, this.state.written);
    const { columns, pending } = this.shape(record, row);
    const prefix = record.phase === "prefill" ? this.state.cached : this.lane.prompt_tokens + row.start - pending;
    return { prefix: Math.max(0, prefix), columns, tree: columns.some((column) => column.group >= 0) };
  }

  shape(record, row) {
    const all = Math.min(record.query_tokens, MOST_COLUMNS);
    if (this.lane.decoder === "block_diffusion") return this.blocks(record, row, all);
    if (record.phase === "prefill") return this.chain(row, all, [], []);
    if (record.phase === "commit") return this.chain(row, all, this.text, []);
    if (record.phase === "draft") return this.draftPass(record, row);
    const shapes = {
      autoregressive: this.window,
      sliding_window: this.window,
      block_cached: this.block,
      jacobi: this.jacobi,
      self_speculative: this.exact,
      speculative: this.verify,
    };
    return (shapes[this.lane.decoder] ?? this.unknown).call(this, record, row);
  }

  blocks(record, row, all) {
    return record.phase === "prefill"
      ? promptColumns(this.lane, this.state.cached, all)
      : blockColumns(this.lane, this.text, record, row);
  }

  // Columns of the chain: the last `pending` tokens of `text`, then these others.
  chain(row, pending, text, others) {
    const columns = [];
    for (let depth = 1 - pending; depth <= 0; depth++) {
      columns.push({ kind: "real", token: text[text.length - 1 + depth] ?? null, group: -1, depth, proposal: null });
    }
    others.forEach((other, place) => columns.push({ group: -1, depth: place + 1, proposal: null, ...other }));
    row.proposals.forEach((_, place) => {
      const column = columns[pending - 1 + place];
      if (column) column.proposal = place;
    });
    return { columns, pending };
  }

  // How many of the positions computed are this pass's own: without a cache the prefix is computed again.
  own(record, row, pending) {
    const again = this.lane.settings.use_cache ? 0 : this.lane.prompt_tokens + row.start - pending;
    return Math.min(record.query_tokens - again, MOST_COLUMNS);
  }

  masked(record, row, pending, text = this.text) {
    const masks = Math.max(0, this.own(record, row, pending) - pending);
    return this.chain(row, pending, text, Array(masks).fill({ kind: "mask", token: null }));
  }

  window(record, row) {
    return this.masked(record, row, this.state.pending);
  }

  block(record, row) {
    return this.masked(record, row, row.start % this.lane.settings.cache_block_size || 1);
  }

  jacobi(record, row) {
    const { left } = this.state;
    const guesses = Array.from({ length: Math.max(0, this.own(record, row, 1) - 1) }, (_, place) => {
      const known = row.proposals[place + 1]?.source !== "random" && place < left.length;
      return known ? { kind: "draft", token: left[place].token } : { kind: "noise", token: null };
    });
    return this.chain(row, 1, this.text, guesses);
  }

  exact(record, row) {
    const own = this.own(record, row, 1);
    const { left } = this.state;
    if (own === (this.masks + 1) ** 2 && own > 1) {
      const right = row.accepted - 1;
      const sure = left.findIndex((draft, place) => place >= right && !draft.sure);
      const known = sure < 0 ? left : left.slice(0, sure);
      return this.tree(row, 1, this.draftColumns(known.map((draft) => draft.token), this.masks), this.masks, right);
    }
    const masks = own === 1 ? 0 : own <= 1 + 2 * narrowOf(this.lane) ? narrowOf(this.lane) : this.masks;
    const drafted = Math.max(0, own - 1 - masks);
    const others = Array.from({ length: drafted }, (_, place) => ({ kind: "draft", token: left[place]?.token ?? null }));
    return this.chain(row, 1, this.text, [...others, ...Array(masks).fill({ kind: "mask", token: null })]);
  }

  draftColumns(ids, count) {
    return Array.from({ length: count }, (_, place) =>
      place < ids.length ? { kind: "draft", token: ids[place] } : { kind: "none", token: null },
    );
  }

  // Root and drafts, then a group of masks behind each prefix of the drafts; proposals follow the path that was taken.
  tree(row, pending, drafts, masks, right) {
    const { columns } = this.chain({ proposals: [] }, pending, this.text, drafts);
    const first = columns.length;
    for (let group = 0; group <= drafts.length; group++) {
      for (let mask = 1; mask <= masks; mask++) {
        columns.push({ kind: "mask", token: null, group, depth: group + mask, proposal: null });
      }
    }
    row.proposals.forEach((_, place) => {
      const column = place <= right ? pending - 1 + place : first + masks * right + (place - right - 1);
      if (columns[column]) columns[column].proposal = place;
    });
    return { columns, pending };
  }

  verify(record, row) {
    const { settings } = this.lane;
    const { pending, drafts } = this.state;
    const room = settings.max_new_tokens - row.start;
    const extra = Math.max(0, this.own(record, row, pending) - pending);
    const wanted = settings.continuation && row.threshold !== null ? this.masks : 0;
    const sizes = [
      [settings.draft_tokens, wanted],
      [Math.min(settings.draft_tokens, room - 1), Math.min(wanted, room - 1)],
    ];
    const [count, masks] = sizes.find(([most, behind]) => most + (most + 1) * behind === extra) ?? [extra, 0];
    const columns = this.draftColumns(drafts, count);
    return masks
      ? this.tree(row, pending, columns, masks, sourced(row, "draft"))
      : this.chain(row, pending, this.text, columns);
  }

  // A pass of the draft model: what it drafted in earlier passes is text to it.
  draftPass(record, row) {
    const { drafts, draftPending } = this.state;
    const shape = this.masked(record, row, draftPending, [...this.text, ...drafts]);
    for (const column of shape.columns.slice(Math.max(0, draftPending - drafts.length), draftPending)) {
      column.kind = "draft";
    }
    return shape;
  }

  // A decoder that is not known here: its window in order, causal.
  unknown(record, row) {
    const kinds = { clean: "real", draft: "draft", mask: "mask", random: "noise" };
    const others = row.proposals.slice(1).map((proposal) => ({ kind: kinds[proposal.source], token: null }));
    return this.chain(row, Math.max(1, this.own(record, row, 1) - others.length), this.text, others);
  }
}
