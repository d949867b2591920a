// The drafts of a pass and the masks behind them, drawn as the tree that the model was given: each position stands to the
// right of the one that it follows.

import { make, put, shape } from "../shared/dom.js";
import { plural, visiblePiece } from "../shared/tokens.js";

const [WIDTH, HEIGHT, ACROSS, DOWN] = [76, 24, 92, 32]; // of a position, and from one to the next
const MOST_SHOWN = 8; // characters of a token

export class TreeView {
  constructor() {
    this.root = make("figure", "lens-stack step-tree");
    this.picture = shape("svg", {});
    const key = "This pass accepted the framed tokens, or keeps them as drafts for the next pass. It did not use the pale ones.";
    put(this.root, make("h3", "", "The tree of drafts"), this.picture, make("figcaption", "lens-note", key));
  }

  show(lane, { known, columns, masks }) {
    const start = columns.findIndex(({ proposal }) => proposal === 0);
    const drafts = columns.filter(({ kind }) => kind === "draft").length;
    this.root.hidden = !known || start < 0 || !drafts;
    if (this.root.hidden) return;
    const rows = rowsOf(columns, start);
    const size = [ACROSS * (1 + Math.max(...columns.map(({ depth }) => depth))), DOWN * (1 + Math.max(...rows.values()))];
    const said = `${plural(drafts, "draft")} and ${plural(masks, "mask")} behind the last token`;
    for (const [name, value] of Object.entries({ viewBox: `0 0 ${size.join(" ")}`, width: size[0], height: size[1], role: "img", "aria-label": said })) {
      this.picture.setAttribute(name, value);
    }
    this.picture.replaceChildren(...[...rows.keys()].flatMap((index) => position(lane, columns, rows, index)));
  }
}

// The row of each column from `start` on: what follows a position first stays in its row, anything else begins a new one.
function rowsOf(columns, start) {
  const rows = new Map([[start, 0]]);
  const followed = new Set();
  let last = 0;
  for (let index = start + 1; index < columns.length; index++) {
    const { after, kind } = columns[index];
    if (kind === "none") continue;
    rows.set(index, followed.has(after) ? ++last : rows.get(after));
    followed.add(after);
  }
  return rows;
}

function position(lane, columns, rows, index) {
  const { kind, token, depth, after, proposal } = columns[index];
  const [x, y] = [ACROSS * depth, DOWN * rows.get(index)];
  const used = proposal === null ? "" : " used";
  const box = shape("rect", { class: `step-cell ${kind}${used}`, x: x + 1, y: y + 1, width: WIDTH, height: HEIGHT, rx: 5 });
  const word = kind === "mask" ? "mask" : lane.label(token);
  const short = [...visiblePiece(word)].slice(0, MOST_SHOWN).join("");
  const text = shape("text", { class: `step-tree-word${used}`, x: x + 1 + WIDTH / 2, y: y + 17 }, short);
  const from = rows.get(after);
  if (from === undefined) return [box, text];
  const line = `M${ACROSS * (depth - 1) + WIDTH + 1} ${DOWN * from + 13}h8V${y + 13}h8`;
  return [shape("path", { class: "step-tree-line", d: line }), box, text];
}
