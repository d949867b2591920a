// The score board: follows the run that its value names, and draws it message by message.

import { announce, bringIntoView, button, handFocus, make, put, status } from "../shared/dom.js";
import { OVER, RunView } from "../shared/feed.js";
import { decimals } from "../shared/tokens.js";
import { familyClass, ProblemGrid, ScoreTable, SIGNS, standingWords } from "./board-table.js";

// The problems, the lanes, a cell for each of both, and the last row of counts of each lane.
export class BoardModel {
  constructor(opening) {
    Object.assign(this, opening);
    this.baseline = null;
    this.state = { state: "loading", sentence: "" };
    this.scores = new Map();
    this.cells = opening.problems.map(() => new Map());
    this.current = null; // the number of the problem that the lanes write
  }

  get writers() {
    return this.lanes.filter((lane) => !lane.problem);
  }

  get over() {
    return OVER.includes(this.state.state);
  }

  lane(key) {
    return this.lanes.find((lane) => lane.key === key);
  }

  // pending, writing, right, wrong, or stopped
  standing(key, number) {
    const cell = this.cells[number].get(key);
    if (cell) return cell.right ? "right" : "wrong";
    if (this.lane(key).problem) return "absent";
    if (number !== this.current) return "pending";
    return this.over ? "stopped" : "writing";
  }

  differs(number) {
    const verdicts = new Set(this.writers.map((lane) => this.standing(lane.key, number)));
    return verdicts.has("right") && verdicts.has("wrong");
  }
}

class Board extends RunView {
  // `again` hears {count, task, first} of a board whose problems are wanted once more, `ended` that one is over.
  constructor(root, { again, ended }) {
    super(root);
    this.ended = ended;
    this.status = status("board-status", "Choose how many problems and of which family, then press Score.");
    this.bar = make("progress", "board-bar", "", { "aria-label": "Finished answers" });
    this.about = make("p", "lens-note board-about");
    this.table = new ScoreTable();
    this.problem = new ProblemCard();
    this.grid = new ProblemGrid((number) => this.show(number));
    const same = () => {
      handFocus("#board-score");
      again({ count: this.model.count, task: this.model.task, first: this.model.first });
    };
    const tools = put(make("div", "board-tools"), button("lens-tool board-again", "Same problems again", same));
    this.body = put(make("div", "lens-stack"), this.about, this.table.root, tools, this.grid.root, this.problem.root);
    put(root, this.status, this.bar, this.body);
    this.body.hidden = this.bar.hidden = true;
    this.model = null;
  }

  open(message) {
    this.model = new BoardModel(message);
    this.body.hidden = false;
    const { task, problems, first, count, limit } = this.model;
    const which = task === "all" ? "all families in turn" : problems[0].family;
    this.about.textContent = `${count} problems, ${which}, seeds from ${first} · at most ${limit} tokens each`;
    this.problem.close();
    this.redraw();
    this.advance();
  }

  met({ lanes, baseline }) {
    Object.assign(this.model, { lanes, baseline });
    this.redraw();
  }

  redraw() {
    this.table.open(this.model);
    this.grid.open(this.model);
  }

  writing({ problem }) {
    this.model.current = problem;
    this.refresh(problem);
  }

  wrote(message) {
    this.model.cells[message.problem].set(message.lane, message);
    this.refresh(message.problem);
    this.advance();
  }

  score(message) {
    this.model.scores.set(message.lane, message);
    this.table.draw(this.model, message.lane);
  }

  state(message) {
    this.root.dataset.board = message.state;
    super.state(message);
    if (!this.model) return;
    this.model.state = message;
    this.bar.hidden = this.model.over;
    announce("lens:busy", this.model.over ? null : "The score board below is running. Stop it there.");
    if (!this.model.over) return;
    if (this.model.current !== null) this.refresh(this.model.current);
    for (const lane of this.model.lanes) this.table.draw(this.model, lane.key);
  }

  // Leave the drawing as it was.
  refusal({ sentence }) {
    this.root.dataset.board = "failed";
    this.say(sentence);
  }

  refresh(number) {
    this.grid.draw(this.model, number);
    if (this.problem.number === number) this.problem.open(this.model, number);
  }

  advance() {
    this.bar.max = Math.max(1, this.model.problems.length * this.model.writers.length);
    this.bar.value = this.model.cells.reduce((sum, cells) => sum + cells.size, 0);
  }

  show(number) {
    this.problem.open(this.model, number);
    this.grid.choose(number);
    bringIntoView(this.problem.root);
  }
}

// One problem, opened below the grid: what was asked, what is right, and what each lane wrote.
class ProblemCard {
  constructor() {
    this.root = make("section", "lens-box lens-stack board-card");
    this.close();
  }

  close() {
    this.root.hidden = true;
    this.number = null;
  }

  open(model, number) {
    const { family, prompt, answer, task, seed } = model.problems[number];
    this.number = number;
    const title = make("h3", "", `Problem ${number + 1} · ${family} · seed ${seed}`);
    const compare = () => {
      announce("lens:problem", { task, seed, prompt });
      handFocus("#run");
    };
    const open = button("lens-tool board-run", "Open this one in Compare", compare);
    const head = put(make("div", "lens-row"), title, open);
    const known = put(make("p", "board-answer"), "Known answer ", make("b", "", answer));
    const texts = put(make("div", "board-texts"), ...model.lanes.map((lane) => this.text(model, lane, number)));
    this.root.replaceChildren(head, make("p", "lens-pre board-prompt", prompt), known, texts);
    this.root.setAttribute("aria-label", title.textContent);
    this.root.hidden = false;
  }

  text(model, lane, number) {
    const standing = model.standing(lane.key, number);
    const cell = model.cells[number].get(lane.key);
    const verdict = make("span", `lens-badge ${standing}`, `${SIGNS[standing]} ${standingWords(standing)}`.trim());
    const box = make("article", `lens-box board-text ${familyClass(lane)}`);
    put(box, put(make("p", "lens-row"), make("b", "board-title", lane.title), verdict));
    if (!cell) return box;
    const rate = decimals(cell.tokens / Math.max(1, cell.passes), 2);
    const cut = cell.reason === "length" ? " · cut at the length limit" : "";
    const counts = `${cell.tokens} tokens in ${cell.passes} passes · ${rate} tokens / pass${cut}`;
    return put(box, make("p", "lens-note", counts), make("p", "lens-pre board-wrote", cell.text));
  }
}

export function mountBoard({ element, props, watch, tell, submit }) {
  const board = new Board(element.querySelector(".board"), { again: submit, ended: () => tell("select") });
  board.read(props.value);
  watch("value", () => board.read(props.value));
  board.root.dataset.ready = "true";
}
