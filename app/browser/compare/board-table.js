// A score board as a table of lanes and a grid of problems.

import { button, clear, make, put } from "../shared/dom.js";
import { OVER } from "../shared/feed.js";
import { decimals, thresholdName } from "../shared/tokens.js";

// One lane a row. On narrow screens a row becomes a card (board.css), so it is made of plain
// elements, and roles say what they are.

const BOARD_COLUMNS = [
  ["right", "right", "Right answers among the finished problems; below, their share with its 95 % Wilson interval."],
  ["tokensPerProblem", "tokens / problem", "Mean length of the finished answers, end of turn included."],
  ["passes", "passes", "Decode and verify passes, counted once for each problem in them."],
  ["tokensPerForward", "tokens / forward", "Tokens ÷ passes, of every pass so far."],
  ["tokensPerSecond", "tok / s", "Tokens ÷ seconds of model time, over the finished batches of problems."],
  ["speedup", "speed-up", "Tok / s of this lane ÷ tok / s of the baseline, over the batches that both have finished."],
  ["pairs", "same problems", "Problems that both lanes have finished: right in both, in one only, or in neither."],
];

export class ScoreTable {
  constructor() {
    this.table = make("div", "board-table", "", { role: "table", "aria-label": "Scores" });
    this.root = put(make("div", "board-scores"), this.table, counting());
    this.rows = new Map();
  }

  open(model) {
    const heads = [["lane", "Lane", ""], ...BOARD_COLUMNS].map(([name, label, meaning]) => {
      return make("div", `board-head board-${name}`, label, { role: "columnheader", title: meaning });
    });
    const top = put(make("div", "board-heads", "", { role: "row" }), ...heads);
    this.rows.clear();
    for (const lane of model.lanes) {
      const row = make("div", `board-row ${familyClass(lane)}`, "", { role: "row", "data-lane": lane.key });
      this.rows.set(lane.key, row);
    }
    clear(this.table).append(top, ...this.rows.values());
    for (const lane of model.lanes) this.draw(model, lane.key);
  }

  draw(model, key) {
    const lane = model.lane(key);
    const score = model.scores.get(key);
    const name = put(make("div", "board-name", "", { role: "rowheader" }), ...laneName(lane, score));
    const row = clear(this.rows.get(key));
    row.append(name);
    if (lane.problem) {
      const attributes = { role: "cell", "aria-colspan": BOARD_COLUMNS.length };
      return put(row, make("div", "board-problem", lane.problem, attributes));
    }
    const other = model.baseline !== null && model.baseline !== key;
    for (const [column, label] of BOARD_COLUMNS) {
      const cell = make("div", `board-cell board-${column}`, "", { role: "cell", "data-label": label });
      row.append(put(cell, ...SHOW[column](score, { model, other })));
    }
    return row;
  }
}

const SHOW = {
  right: (score) => (score?.n ? shareOf(score) : [figure("–")]),
  tokensPerProblem: (score) => [figure(known(score?.tokensPerProblem, 1))],
  passes: (score) => [figure(score?.passes ? score.passes.toLocaleString("en-US") : "–")],
  tokensPerForward: (score) => [figure(score?.passes ? decimals(score.tokensPerForward, 2) : "–", "main")],
  tokensPerSecond: (score) => [figure(known(score?.tokensPerSecond, 0))],
  speedup: (score, { other }) => [other ? figure(times(score?.speedup), "main") : figure("baseline", "base")],
  pairs: (score, { model, other }) => (other && score?.pairs?.n ? pairsOf(score, model) : [figure("–", "none")]),
};

function known(value, places) {
  return value === null || value === undefined ? "–" : decimals(value, places);
}

function times(value) {
  return value ? `${decimals(value, 2)}×` : "–";
}

function figure(text, kind = "") {
  return make("span", `board-figure ${kind}`, text);
}

function percent(share) {
  return String(Math.round(100 * share));
}

// n right of n, the share with its interval in words, and both on a scale from 0 to 100 %.
function shareOf({ n, right, interval: [low, high] }) {
  const scale = make("span", "board-scale");
  const span = make("span", "board-span");
  span.style.left = `${100 * low}%`;
  span.style.width = `${100 * (high - low)}%`;
  const mark = make("span", "board-mark");
  mark.style.left = `${(100 * right) / n}%`;
  const words = `${percent(right / n)} % (95 %: ${percent(low)} to ${percent(high)} %)`;
  return [
    put(make("span", "board-figure"), String(right), make("span", "board-of", ` of ${n}`)),
    put(scale, span, mark),
    make("span", "board-small", words),
  ];
}

function pairsOf({ pairs }, model) {
  const words = make("span", "board-split");
  const base = model.lane(model.baseline).title;
  put(words, make("b", "", String(pairs.onlyBaseline)), ` only ${base}`, make("br"));
  put(words, make("b", "", String(pairs.onlyThis)), " only this lane");
  const chance = OVER.includes(model.state.state) ? ` · McNemar p = ${decimals(pairs.p, 2)}` : "";
  return [words, make("span", "board-small", `of ${pairs.n}${chance}`)];
}

function laneName(lane, score) {
  const about = [lane.checkpoint, lane.note].filter(Boolean).join(" · ");
  const parts = [make("span", "board-title", lane.title), make("span", "board-small", about)];
  const steered = score && lane.family === "masks";
  if (steered) parts.push(make("span", "board-small board-tau", thresholdName(score.threshold)));
  if (score?.inactive) parts.push(make("span", "board-small board-inactive", score.inactive));
  if (score?.turned) parts.push(make("span", "board-turned", "τ changed while it ran"));
  return parts;
}

export function familyClass(lane) {
  return `lens-lane-${lane.family}`;
}

function counting() {
  const list = make("dl");
  for (const [, label, meaning] of BOARD_COLUMNS) list.append(make("dt", "", label), make("dd", "", meaning));
  return put(make("details", "board-counting"), make("summary", "", "How these are counted"), list);
}

// The grid of problems: families as blocks, a column for each problem, in it a cell for each lane. A column is a
// button; arrow keys walk from one to the next, Enter or a click opens it.

export const SIGNS = { pending: "", writing: "…", right: "✓", wrong: "×", stopped: "–", absent: "" };
export const WORDS = {
  pending: "not begun",
  writing: "writing",
  right: "right",
  wrong: "wrong",
  stopped: "stopped",
  absent: "cannot write",
};

export class ProblemGrid {
  constructor(onOpen) {
    this.root = make("div", "board-grid");
    this.onOpen = onOpen;
    this.columns = [];
    this.root.addEventListener("keydown", (event) => this.walk(event));
  }

  open(model) {
    const chosen = this.columns.findIndex((column) => column.classList.contains("chosen"));
    this.columns = model.problems.map((problem, number) => this.column(model, number));
    const blocks = new Map();
    model.problems.forEach(({ family }, number) => {
      if (!blocks.has(family)) blocks.set(family, block(family));
      blocks.get(family).lastChild.append(this.columns[number]);
    });
    clear(this.root).append(key(model), put(make("div", "board-blocks"), ...blocks.values()));
    this.columns.forEach((column, number) => this.draw(model, number));
    this.order = [...this.root.querySelectorAll(".board-column")];
    this.reach(this.order[0]);
    if (chosen >= 0) this.choose(chosen);
  }

  column(model, number) {
    const column = button("board-column", "", () => this.onOpen(number), { "data-problem": number });
    for (const lane of model.lanes) column.append(make("span", `board-square ${familyClass(lane)}`));
    return column;
  }

  draw(model, number) {
    const column = this.columns[number];
    const told = model.lanes.map((lane, place) => {
      const standing = model.standing(lane.key, number);
      const square = column.children[place];
      square.dataset.standing = standing;
      square.textContent = SIGNS[standing];
      return `${lane.title} ${WORDS[standing]}`;
    });
    const { family, seed } = model.problems[number];
    column.classList.toggle("differs", model.differs(number));
    column.setAttribute("aria-label", `Problem ${number + 1}, ${family}, seed ${seed}: ${told.join(", ")}`);
    column.title = `${family} · seed ${seed}`;
  }

  choose(number) {
    this.columns.forEach((column, place) => {
      column.classList.toggle("chosen", place === number);
      column.setAttribute("aria-pressed", String(place === number));
    });
    this.reach(this.columns[number]);
  }

  // One column at a time can be reached by the tab key.
  reach(column) {
    for (const other of this.columns) other.tabIndex = other === column ? 0 : -1;
  }

  walk(event) {
    const here = this.order?.indexOf(event.target) ?? -1;
    const last = (this.order?.length ?? 0) - 1;
    const next = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: last }[event.key];
    if (here < 0 || next === undefined) return;
    event.preventDefault();
    const column = this.order[Math.min(last, Math.max(0, next))];
    this.reach(column);
    column.focus();
  }
}

function block(family) {
  return put(make("section", "board-block"), make("h3", "", family), make("div", "board-columns"));
}

// Which square of a column is whose, and what the signs mean.
function key(model) {
  const lanes = make("p", "board-key", "Top to bottom: ");
  model.lanes.forEach((lane, place) => {
    if (place) lanes.append(", ");
    lanes.append(make("b", familyClass(lane), lane.title));
  });
  const signs = make("ul", "board-signs");
  for (const standing of ["right", "wrong", "writing", "pending", "stopped"]) {
    const square = make("span", "board-square", SIGNS[standing], { "data-standing": standing, "aria-hidden": true });
    signs.append(put(make("li"), square, make("span", "", WORDS[standing])));
  }
  const differ = put(make("li"), make("span", "board-differs"), make("span", "", "the lanes differ"));
  return put(make("div", "board-legend"), lanes, put(signs, differ));
}
