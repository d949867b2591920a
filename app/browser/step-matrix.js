// Who sees whom in one pass: a row for each position that was computed, a column for the prefix and for each of them.

const LETTERS = { real: "t", draft: "d", mask: "m", noise: "r", none: "–" };
const WORDS = { real: "token", draft: "draft", mask: "mask", noise: "random token", none: "missing draft" };
const LETTERED = 17; // more columns than this are too narrow for letters
const DRAWN = 200; // a causal pass of more columns is drawn as the triangle that it is

class MatrixView {
  constructor() {
    this.root = make("figure", "step-matrix");
    this.picture = shape("svg", { "aria-hidden": "true" });
    this.caption = make("figcaption", "step-caption");
    this.keys = make("ul", "step-keys");
    put(this.root, make("h3", "", "Who sees whom"), this.picture, this.keys, this.caption);
    this.picture.addEventListener("pointermove", (event) => this.point(event));
    this.picture.addEventListener("pointerleave", () => this.mark(null));
  }

  show(pass) {
    this.pass = pass;
    const count = pass.columns.length;
    const size = 1 + count + 1.6; // a strip of heads, the positions, and the prefix, which is wider
    this.picture.setAttribute("viewBox", `0 0 ${size} ${1 + count}`);
    this.picture.style.setProperty("--size", size);
    this.row = shape("rect", { class: "step-row", x: 0, y: 0, width: size, height: 1, visibility: "hidden" });
    this.picture.replaceChildren(...this.heads(), ...this.cells(), this.row);
    this.key();
    this.mark(null);
  }

  // The kinds that occur.
  key() {
    const found = new Set([this.pass.prefix ? "prefix" : "", ...this.pass.columns.map(({ kind }) => kind)]);
    clear(this.keys);
    for (const kind of ["prefix", ...Object.keys(WORDS)].filter((name) => found.has(name))) {
      const sample = shape("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" });
      sample.append(shape("rect", { class: `step-cell ${kind}`, width: 10, height: 10 }));
      this.keys.append(put(make("li"), sample, make("span", "", WORDS[kind] ?? "prefix, cached")));
    }
  }

  heads() {
    const { columns } = this.pass;
    const letters = columns.length <= LETTERED;
    const nodes = [];
    columns.forEach(({ kind }, index) => {
      for (const [x, y] of [[2.6 + index, 0], [0, 1 + index]]) {
        nodes.push(shape("rect", { class: `step-head ${kind}`, x, y, width: 1, height: 1 }));
        if (letters) nodes.push(shape("text", { class: "step-letter", x: x + 0.5, y: y + 0.7 }, LETTERS[kind]));
      }
    });
    return nodes;
  }

  // Neighbouring cells of a row that are seen and of one kind are one rectangle.
  cells() {
    const { columns, tree, prefix } = this.pass;
    const count = columns.length;
    const nodes = prefix ? [shape("rect", { class: "step-cell prefix", x: 1, y: 1, width: 1.5, height: count })] : [];
    if (!tree && columns[0].block === undefined && count > DRAWN) {
      return [...nodes, shape("polygon", { class: "step-cell real", points: `2.6,1 ${2.6 + count},${1 + count} 2.6,${1 + count}` })];
    }
    for (let query = 0; query < count; query++) {
      for (let key = 0, end = 0; key < count; key = Math.max(end, key + 1)) {
        for (end = key; end < count && columns[end].kind === columns[key].kind && sees(columns, query, end); ) end += 1;
        if (end === key) continue;
        const place = { x: 2.6 + key, y: 1 + query, width: end - key, height: 1 };
        nodes.push(shape("rect", { class: `step-cell ${columns[key].kind}`, ...place }));
      }
    }
    for (let line = 1; line <= count && count <= DRAWN; line++) {
      nodes.push(shape("path", { class: "step-grid", d: `M1 ${line}H${2.6 + count}M${1.6 + line} 1V${1 + count}` }));
    }
    return nodes;
  }

  point(event) {
    const frame = this.picture.getBoundingClientRect();
    const rows = 1 + this.pass.columns.length;
    const row = Math.floor(((event.clientY - frame.top) / frame.height) * rows) - 1;
    this.mark(row >= 0 && row < rows - 1 ? row : null);
  }

  // Say and show what one position sees, or with null how the whole pass is built.
  mark(query) {
    this.row.setAttribute("visibility", query === null ? "hidden" : "visible");
    this.row.setAttribute("y", 1 + (query ?? 0));
    this.caption.textContent = query === null ? this.summary() : this.sentence(query);
  }

  sentence(query) {
    const { columns, prefix } = this.pass;
    const counts = { real: 0, draft: 0, mask: 0, noise: 0, none: 0 };
    columns.forEach((column, key) => {
      if (key !== query && sees(columns, query, key)) counts[column.kind] += 1;
    });
    const seen = Object.entries(counts).filter(([, number]) => number);
    const parts = [prefix ? `the prefix (${prefix})` : "", ...seen.map(([kind, number]) => plural(number, WORDS[kind]))];
    const { kind, depth } = columns[query];
    const where = depth > 0 ? ` at +${depth}` : depth === 0 ? " (the last one)" : "";
    return `This ${WORDS[kind]}${where} sees ${[...parts.filter(Boolean), "itself"].join(", ")}.`;
  }

  summary() {
    const { columns, tree, prefix } = this.pass;
    if (columns[0]?.block !== undefined) {
      return `In blocks: each position sees all of its own block, in both directions, and what stands before it${prefix ? ", the prefix included" : ""}.`;
    }
    if (!tree) return `Causal: each position sees ${prefix ? "the prefix, " : ""}what stands before it, and itself.`;
    const drafts = columns.filter((column) => column.group < 0 && column.depth > 0).length;
    const groups = new Set(columns.map((column) => column.group)).size - 1;
    const masks = columns.filter((column) => column.group === 0).length;
    return `A tree: the last token and ${plural(drafts, "draft")} are causal; behind each of their ${groups} prefixes stands a group of ${plural(masks, "mask")}, which sees that prefix and itself, and no other group.`;
  }
}

function plural(number, word) {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}
