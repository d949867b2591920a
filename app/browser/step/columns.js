// The input of each forward pass of a lane: its columns in order, and who sees whom, as its record says
// (`Trace` in mars/records.py).
//
// A column reads a `kind`: "real" (a token of the text), "draft", "mask", "noise", or "none" (the place of a draft that
// was not there); `token` is its id, and a draft may be `copied` from further up in the text. `position` counts from the
// beginning of the prompt, `depth` from the last token that the model knew, the root. It stands behind the column `after`
// (-1: behind the prefix alone). `proposal` is the number of the proposal that was read off it, null where none was.

const KINDS = { clean: "real", draft: "draft", copy: "draft", mask: "mask", random: "noise", absent: "none" };

// The columns of a pass, how many cached tokens stand before them, and whether they form a `tree` or, with so many
// positions in a `block`, see each other in both directions.
//
// A run of an earlier version does not say what was read (`known` is false): its columns are the proposals alone.
export function columnsOf({ proposals, trace }) {
  if (!trace) {
    const columns = proposals.map(({ source }, depth) => ({ kind: KINDS[source], token: null, depth, proposal: depth }));
    return { known: false, prefix: null, columns, tree: false, block: 0 };
  }
  const columns = [];
  for (const { reads, ids, after } of trace.spans) {
    ids.forEach((token, place) => {
      const behind = place ? columns.length - 1 : (after ?? -1);
      const position = behind < 0 ? trace.cached : columns[behind].position + 1;
      columns.push({ kind: KINDS[reads], copied: reads === "copy", token, position, after: behind, proposal: null });
    });
  }
  trace.columns.forEach((column, proposal) => {
    columns[column].proposal = proposal;
  });
  const { position } = columns[trace.columns[0] ?? columns.length - 1];
  const root = position - (trace.block && trace.columns.length ? 1 : 0);
  for (const column of columns) column.depth = column.position - root;
  const tree = !trace.block && columns.some(({ after }, index) => after !== index - 1);
  return { known: true, prefix: trace.cached, columns, tree, block: trace.block };
}

// Which columns this one sees, as an array of booleans.
export function seenBy({ columns, block }, query) {
  if (block) {
    const last = Math.floor(columns[query].position / block);
    return columns.map(({ position }) => Math.floor(position / block) <= last);
  }
  const seen = Array(columns.length).fill(false);
  for (let column = query; column >= 0; column = columns[column].after) seen[column] = true;
  return seen;
}
