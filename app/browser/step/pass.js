// One pass, drawn: its window, the card of a proposal, the attention mask, and the tree of its drafts.

import { alternativeList, scoreWords } from "../shared/card.js";
import { make, put, shape } from "../shared/dom.js";
import { isRefused } from "../shared/reasons.js";
import { cut, plural, thresholdName, visiblePiece } from "../shared/tokens.js";
import { seenBy } from "./lane.js";

const READ = { real: "token", draft: "draft", mask: "mask", noise: "random", none: "no draft" };
const SIGNS = { gained: "+", lost: "−", accepted: "✓", refused: "×", behind: "·", waits: "→" };
const WORDS = { real: "token", draft: "draft", mask: "mask", noise: "random token", none: "missing draft" };
const UNKNOWN = "An earlier version recorded this run: its attention masks are not known.";
const DRAWN = 200; // more columns than this have no lines between them

// The window of a pass: for each position the token that the model read, the one it proposed, and its score.
export class WindowView {
  // `onPick` hears which column the person points at or walks to, null when none.
  constructor(onPick) {
    this.root = make("div", "step-window", "", { role: "list", "aria-label": "Positions of this pass" });
    for (const name of ["mouseover", "focusin", "click"]) {
      this.root.addEventListener(name, (event) => onPick(event.target.closest(".step-column"), name !== "mouseover"));
    }
    for (const name of ["mouseleave", "focusout"]) this.root.addEventListener(name, () => onPick(null, false));
  }

  // `what` is the threshold to try and what it would have accepted, null to show what happened.
  show(lane, pass, shape, what) {
    const focused = this.root.contains(document.activeElement) ? document.activeElement.closest(".step-column") : null;
    Object.assign(this, { lane, pass, shape, what });
    const root = shape.columns.findIndex((column) => column.proposal === 0);
    const shown = root < 0 ? [] : this.path(root);
    this.root.style.setProperty("--columns", shown.length);
    this.root.replaceChildren(this.context(root), ...shown.map((column) => this.column(column)));
    this.root.hidden = !shown.length;
    if (focused) this.root.querySelector(`[data-place="${focused.dataset.place}"] button`)?.focus();
  }

  // From the root on what something was read off, and the first draft that nothing was. The others go without saying:
  // drafts behind it, and groups of masks behind other drafts than the last right one.
  path(root) {
    const columns = this.shape.columns.map((column, index) => ({ ...column, index })).slice(root);
    const unread = columns.filter(({ kind, proposal }) => proposal === null && !(this.shape.tree && kind === "mask"));
    return columns.filter((column) => column.proposal !== null || column === unread[0]).map((column, place, shown) => ({
      ...column,
      parted: place > 0 && this.shape.tree && column.kind === "mask" && shown[place - 1].kind !== "mask",
    }));
  }

  // The part before the window: cached tokens, those read again, and the end of the text.
  context(again) {
    const node = make("div", "step-context", "", { role: "listitem" });
    const cached = this.shape.known ? `${this.shape.prefix} cached${again > 0 ? ` + ${again} new` : ""}` : "";
    const count = make("span", "step-before", cached);
    const written = this.lane.lane.written.slice(0, Math.max(0, this.pass.from - 1)).join("").slice(-30);
    const end = written ? `…${written.replaceAll("\n", "↵")}` : "the prompt";
    const tail = put(make("span", "step-tail"), make("span", "", end));
    put(node, this.axis(), make("span", "step-label", "proposed"));
    return put(node, put(make("span", "step-past"), count, tail));
  }

  // The name of the score, and τ at its height.
  axis() {
    const { threshold } = this.pass.row;
    const node = put(make("span", "step-axis"), make("span", "", this.lane.lane.settings.score));
    if (threshold !== null && this.pass.counted) {
      node.style.setProperty("--tau", String(Math.min(1, threshold / this.lane.top)));
      node.append(make("b", "step-tau-name", thresholdName(threshold)));
    }
    return node;
  }

  column(column) {
    const place = column.proposal;
    const proposal = place === null ? null : this.pass.row.proposals[place];
    const fate = proposal ? this.fate(place) : "silent";
    const attributes = { role: "listitem", "data-column": column.index, ...(proposal && { "data-place": place }) };
    const node = make("div", `step-column ${fate}${column.parted ? " parted" : ""}`, "", attributes);
    if (proposal && place < this.pass.row.accepted) node.classList.add("kept");
    if (this.what && proposal && place < this.what.accepted) node.classList.add("would");
    const unused = column.kind === "none" ? "no drafts yet" : "not used";
    const said = proposal ? this.said(proposal, place, fate) : make("span", "step-said", unused);
    put(node, this.score(proposal, place), said, this.read(column));
    return put(node, make("span", "step-place", column.depth === 0 ? "last" : `+${column.depth}`));
  }

  // The fate of a proposal, or the one it would have had.
  fate(place) {
    const { accepted, trace } = this.pass.row;
    if (trace?.reasons[place] === "kept") return "waits";
    if (this.what && place < this.what.accepted && place >= accepted) return "gained";
    if (this.what && place >= this.what.accepted && place < accepted) return "lost";
    return place < accepted ? "accepted" : trace && isRefused(trace.reasons, place) ? "refused" : "behind";
  }

  score(proposal, place) {
    const node = make("span", "step-score");
    if (!proposal) return node;
    const line = (name, value) => {
      node.style.setProperty(`--${name}`, String(Math.min(1, Math.max(0, value / this.lane.top))));
      node.append(make("i", `step-${name}`));
    };
    line("bar", proposal.score);
    if (this.pass.row.threshold !== null) line("tau", this.pass.row.threshold);
    if (place > 0 && this.what) line("what-if", this.what.threshold);
    return put(node, make("span", "step-value", cut(proposal.score, 3, this.lane.lane.settings.score)));
  }

  said(proposal, place, fate) {
    const kind = this.lane.ends(proposal.token_id) ? "step-said ends" : "step-said";
    const node = make("button", kind, "", { type: "button", "aria-label": this.lane.describe(this.pass, place) });
    const word = make("span", "step-word", this.lane.label(proposal.token_id));
    return put(node, make("span", "step-sign", SIGNS[fate]), word);
  }

  read(column) {
    const node = make("span", `step-read ${column.kind}`);
    const known = column.token !== null && column.kind !== "mask" && column.kind !== "none";
    const before = this.shape.columns[column.index - 1]?.proposal ?? null;
    if (column.kind === "draft" && known && before !== null && this.pass.record.phase === "verify") {
      const right = this.pass.row.proposals[before].token_id === column.token;
      node.append(make("span", "step-sign", right ? "=" : "≠"));
      const draft = column.copied ? "The draft, copied from the text," : "The draft";
      node.title = `${draft} ${right ? "matches" : "does not match"} the model's own choice.`;
    }
    const label = known ? this.lane.label(column.token) : READ[column.kind];
    const word = make("span", known ? "step-word" : "step-word step-origin", label);
    return put(node, word, column.copied ? make("small", "step-copied", "copied") : "");
  }
}

// Opens the card of one proposal: what was said at this position, how sure, what else was likely, what became of it.
export function explain(card, node, lane, pass) {
  const place = Number(node.dataset.place);
  const { proposals, threshold } = pass.row;
  const { score, alternatives, token_id: said } = proposals[place];
  card.open(
    node,
    node.querySelector("button"),
    make("p", "lens-card-where", `${pass.name} · proposal ${place + 1} of ${proposals.length}`),
    make("p", "", scoreWords(lane.lane.settings.score, score, threshold)),
    alternativeList(alternatives.map(([token, probability]) => [lane.label(token), probability, token === said])),
    make("p", "lens-card-reason", lane.reason(pass, place)),
  );
}

// The attention mask of one pass: a row for each computed position, a column for the prefix and for each of them.
export class MatrixView {
  constructor() {
    this.root = make("figure", "lens-stack step-matrix");
    this.picture = shape("svg", { "aria-hidden": "true" });
    this.caption = make("figcaption", "step-caption lens-note");
    this.keys = make("ul", "step-keys lens-row lens-note");
    put(this.root, make("h3", "", "Attention mask"), this.picture, this.keys, this.caption);
  }

  // A run of an earlier version has no attention masks: the picture and its key are hidden.
  show(pass) {
    this.pass = pass;
    this.root.classList.toggle("unknown", !pass.known);
    this.caption.textContent = UNKNOWN;
    if (!pass.known) return;
    const count = pass.columns.length;
    const size = count + 1.6; // the positions, and the prefix, which is wider
    this.picture.setAttribute("viewBox", `0 0 ${size} ${count}`);
    this.picture.style.setProperty("--size", size);
    this.row = shape("rect", { class: "step-row", x: 0, y: 0, width: size, height: 1, visibility: "hidden" });
    this.picture.replaceChildren(...this.cells(), this.row);
    this.key();
    this.mark(null);
  }

  // The kinds that occur.
  key() {
    const found = new Set([this.pass.prefix ? "prefix" : "", ...this.pass.columns.map(({ kind }) => kind)]);
    this.keys.replaceChildren();
    for (const kind of ["prefix", ...Object.keys(WORDS)].filter((name) => found.has(name))) {
      const sample = shape("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" });
      sample.append(shape("rect", { class: `step-cell ${kind}`, width: 10, height: 10 }));
      this.keys.append(put(make("li"), sample, make("span", "", WORDS[kind] ?? "prefix, cached")));
    }
  }

  // Neighbouring cells of a row that are seen and of one kind are one rectangle.
  cells() {
    const { columns, prefix } = this.pass;
    const count = columns.length;
    const nodes = prefix ? [shape("rect", { class: "step-cell prefix", x: 0, y: 0, width: 1.5, height: count })] : [];
    for (let query = 0; query < count; query++) {
      const seen = seenBy(this.pass, query);
      for (let key = 0, end = 0; key < count; key = Math.max(end, key + 1)) {
        for (end = key; end < count && columns[end].kind === columns[key].kind && seen[end]; ) end += 1;
        if (end === key) continue;
        const place = { x: 1.6 + key, y: query, width: end - key, height: 1 };
        nodes.push(shape("rect", { class: `step-cell ${columns[key].kind}`, ...place }));
      }
    }
    for (let line = 1; line <= count && count <= DRAWN; line++) {
      nodes.push(shape("path", { class: "step-grid", d: `M0 ${line}H${1.6 + count}M${1.6 + line} 0V${count}` }));
    }
    return nodes;
  }

  // Say and show what one position sees, or with null how the whole pass is built.
  mark(query) {
    if (!this.pass.known) return;
    this.row.setAttribute("visibility", query === null ? "hidden" : "visible");
    this.row.setAttribute("y", query ?? 0);
    this.caption.textContent = query === null ? this.summary() : this.sentence(query);
  }

  sentence(query) {
    const { columns, prefix } = this.pass;
    const counts = { real: 0, draft: 0, mask: 0, noise: 0, none: 0 };
    seenBy(this.pass, query).forEach((sees, key) => {
      if (sees && key !== query) counts[columns[key].kind] += 1;
    });
    const seen = Object.entries(counts).filter(([, number]) => number);
    const counted = seen.map(([kind, number]) => plural(number, WORDS[kind]));
    const parts = [prefix ? `the prefix (${prefix})` : "", ...counted];
    const { kind, depth } = columns[query];
    const where = depth > 0 ? ` at +${depth}` : depth === 0 ? " (the last one)" : "";
    return `This ${WORDS[kind]}${where} sees ${[...parts.filter(Boolean), "itself"].join(", ")}.`;
  }

  summary() {
    const { columns, tree, prefix } = this.pass;
    if (!tree) return `Causal: each position sees ${prefix ? "the prefix, " : ""}what stands before it, and itself.`;
    const drafts = columns.filter(({ kind }) => kind === "draft" || kind === "none").length;
    const masks = columns.filter(({ kind }) => kind === "mask");
    const groups = masks.filter(({ after }) => columns[after].kind !== "mask").length;
    const behind = `${plural(masks.length, "mask")} in ${plural(groups, "group")}`;
    const causal = `A tree: the last token and ${plural(drafts, "draft")} are causal`;
    return `${causal}; ${behind} stand behind their prefixes, and each mask sees its prefix and its own group alone.`;
  }
}

// The drafts of a pass and the masks behind them, drawn as the tree that the model was given: each position stands to
// the right of the one that it follows.

const [WIDTH, HEIGHT, ACROSS, DOWN] = [76, 24, 92, 32]; // of a position, and from one to the next
const MOST_SHOWN = 8; // characters of a token

export class TreeView {
  constructor() {
    this.root = make("figure", "lens-stack step-tree");
    this.picture = shape("svg", {});
    const key =
      "This pass accepted the framed tokens, or keeps them as drafts for the next pass. It did not use the pale ones.";
    put(this.root, make("h3", "", "The tree of drafts"), this.picture, make("figcaption", "lens-note", key));
  }

  show(lane, { known, columns, masks }) {
    const start = columns.findIndex(({ proposal }) => proposal === 0);
    const drafts = columns.filter(({ kind }) => kind === "draft").length;
    this.root.hidden = !known || start < 0 || !drafts;
    if (this.root.hidden) return;
    const rows = rowsOf(columns, start);
    const width = ACROSS * (1 + Math.max(...columns.map(({ depth }) => depth)));
    const height = DOWN * (1 + Math.max(...rows.values()));
    const said = `${plural(drafts, "draft")} and ${plural(masks, "mask")} behind the last token`;
    const frame = { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": said };
    for (const [name, value] of Object.entries(frame)) this.picture.setAttribute(name, value);
    this.picture.replaceChildren(...[...rows.keys()].flatMap((index) => position(lane, columns, rows, index)));
  }
}

// The row of each column from `start` on: what follows a position first stays in its row, anything else begins a new
// one.
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
  const frame = { x: x + 1, y: y + 1, width: WIDTH, height: HEIGHT, rx: 5 };
  const box = shape("rect", { class: `step-cell ${kind}${used}`, ...frame });
  const word = kind === "mask" ? "mask" : lane.label(token);
  const short = [...visiblePiece(word)].slice(0, MOST_SHOWN).join("");
  const text = shape("text", { class: `step-tree-word${used}`, x: x + 1 + WIDTH / 2, y: y + 17 }, short);
  const from = rows.get(after);
  if (from === undefined) return [box, text];
  const line = `M${ACROSS * (depth - 1) + WIDTH + 1} ${DOWN * from + 13}h8V${y + 13}h8`;
  return [shape("path", { class: "step-tree-line", d: line }), box, text];
}
