// A score board as a table of lanes and a grid of problems.

import { button, make, put } from "../shared/dom.js";
import { decimals, thresholdName } from "../shared/tokens.js";

export const familyClass = (lane) => `lens-lane-${lane.family}`;

const NONE = "–";
const known = (value, places, unit = "") => (value || value === 0 ? `${decimals(value, places)}${unit}` : NONE);
const percent = (share) => String(Math.round(100 * share));

const lengthWords = ({ tokensPerProblem }) => [known(tokensPerProblem, 1)];
const passWords = ({ tokensPerForward }) => [known(tokensPerForward, 2)];
const rateWords = ({ tokensPerSecond }) => [known(tokensPerSecond, 0)];
const speedWords = ({ speedup }, other) => [other ? known(speedup, 2, "×") : "baseline"];

// Label, explanation, and the figure with the small words below it; `other` is false for the baseline.
const COLUMNS = [
  ["right", "Right answers among the finished problems, with the 95 % Wilson interval of their share.", rightWords],
  ["tokens / problem", "Mean length of the finished answers, end of turn included.", lengthWords],
  ["tokens / pass", "Tokens ÷ decode and verify passes, over the finished problems.", passWords],
  ["tok / s", "Tokens ÷ seconds of model time, over the finished problems.", rateWords],
  ["speed-up", "Its tok / s ÷ that of the baseline, over the problems that both have finished.", speedWords],
  ["against the baseline", "Problems that only one of the two lanes has right.", pairWords],
];

function rightWords({ n, right, interval }) {
  if (!n) return [NONE];
  const [low, high] = interval.map(percent);
  return [`${right} of ${n}`, `${percent(right / n)} % (95 %: ${low} to ${high} %)`];
}

function pairWords({ pairs }, other) {
  if (!other || !pairs?.n) return [NONE];
  return [`+${pairs.onlyThis} −${pairs.onlyBaseline}`, `of ${pairs.n}`];
}

export class ScoreTable {
  constructor() {
    this.body = make("tbody");
    const heads = COLUMNS.map(([label, meaning]) => make("th", "", label, { scope: "col", title: meaning }));
    const head = put(make("thead"), put(make("tr"), make("th", "", "Lane", { scope: "col" }), ...heads));
    const table = put(make("table", "lens-table board-table", "", { "aria-label": "Scores" }), head, this.body);
    this.root = put(make("div", "lens-scroll", "", { tabindex: 0, role: "region", "aria-label": "Scores" }), table);
  }

  open(model) {
    const row = (lane) => make("tr", `board-row ${familyClass(lane)}`, "", { "data-lane": lane.key });
    this.rows = new Map(model.lanes.map((lane) => [lane.key, row(lane)]));
    this.body.replaceChildren(...this.rows.values());
    for (const lane of model.lanes) this.draw(model, lane.key);
  }

  draw(model, key) {
    const lane = model.lane(key);
    const score = model.scores.get(key) ?? {};
    const other = model.baseline !== null && model.baseline !== key;
    const cells = COLUMNS.map(([, , read]) => {
      const [figure, small] = read(score, other);
      return put(make("td"), make("span", "board-figure", figure), make("span", "lens-note", small));
    });
    const problem = make("td", "board-problem", lane.problem ?? "", { colspan: COLUMNS.length });
    this.rows.get(key).replaceChildren(laneName(lane, score), ...(lane.problem ? [problem] : cells));
  }
}

function laneName(lane, score) {
  const about = [lane.checkpoint, lane.note].filter(Boolean).join(" · ");
  const name = make("th", "", "", { scope: "row" });
  name.append(make("b", "board-title", lane.title), make("span", "lens-note", about));
  if (score.n !== undefined && lane.family === "masks") {
    name.append(make("span", "lens-note board-tau", thresholdName(score.threshold)));
  }
  if (lane.inactive) name.append(make("span", "lens-note", lane.inactive));
  if (score.turned) name.append(make("span", "board-turned", "τ changed while it ran"));
  return name;
}

// The grid of problems: families as blocks, a column for each problem, in it a cell for each lane. A column is a button
// that opens it.

export const SIGNS = { pending: "", writing: "…", right: "✓", wrong: "×", stopped: NONE, absent: "" };
export const standingWords = (standing) => ({ pending: "not begun", absent: "cannot write" })[standing] ?? standing;

export class ProblemGrid {
  constructor(onOpen) {
    this.root = make("div");
    this.onOpen = onOpen;
  }

  open(model) {
    this.columns = model.problems.map((_, number) => this.column(model, number));
    const blocks = new Map();
    model.problems.forEach(({ family }, number) => {
      const title = make("h3", "lens-note", family);
      if (!blocks.has(family)) blocks.set(family, put(make("section"), title, make("div", "board-columns")));
      blocks.get(family).lastChild.append(this.columns[number]);
    });
    this.root.replaceChildren(key(model), put(make("div", "board-blocks"), ...blocks.values()));
    this.columns.forEach((_, number) => this.draw(model, number));
  }

  column(model, number) {
    const column = button("board-column", "", () => this.onOpen(number), { "data-problem": number });
    return put(column, ...model.lanes.map((lane) => make("span", `board-square ${familyClass(lane)}`)));
  }

  draw(model, number) {
    const column = this.columns[number];
    const told = model.lanes.map((lane, place) => {
      const standing = model.standing(lane.key, number);
      const square = column.children[place];
      square.dataset.standing = standing;
      square.textContent = SIGNS[standing];
      return `${lane.title} ${standingWords(standing)}`;
    });
    const { family, seed } = model.problems[number];
    column.classList.toggle("differs", model.differs(number));
    column.title = `Problem ${number + 1}, ${family}, seed ${seed}: ${told.join(", ")}`;
  }

  choose(number) {
    this.columns.forEach((column, place) => column.setAttribute("aria-pressed", String(place === number)));
  }
}

// Which square of a column is whose.
function key(model) {
  const lanes = make("p", "lens-note", "Top to bottom: ");
  model.lanes.forEach((lane, place) => lanes.append(place ? ", " : "", make("b", familyClass(lane), lane.title)));
  lanes.append(". A bar below a problem says that the lanes differ; press a problem to read it.");
  return lanes;
}
