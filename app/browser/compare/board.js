// The score board: follows the run that its value names, and draws it message by message.

import { announce, bringIntoView, button, clear, kept, make, offerFile, put, status } from "../shared/dom.js";
import { OVER, RunView } from "../shared/feed.js";
import { decimals } from "../shared/tokens.js";
import { BoardModel, boardName, keepBoard, laneCsv, LAST_BOARD, problemCsv } from "./board-model.js";
import { familyClass, ProblemGrid, ScoreTable, SIGNS, WORDS } from "./board-table.js";

class Board extends RunView {
  // `again` hears {count, task, first} of a board whose problems are wanted once more, `ended` that one is over.
  constructor(root, { again, ended }) {
    super(root);
    this.status = status("board-status", "Choose how many problems and of which family, then press Score.");
    this.bar = make("progress", "board-bar", "", { "aria-label": "Finished answers" });
    this.about = make("p", "board-about");
    this.table = new ScoreTable();
    this.problem = new ProblemCard();
    this.grid = new ProblemGrid((number) => this.show(number));
    this.tools = boardTools({
      again: () => again({ count: this.model.count, task: this.model.task, first: this.model.first }),
      lanes: () => offerFile(laneCsv(this.model), "text/csv", `${boardName(this.model)}-lanes.csv`),
      problems: () => offerFile(problemCsv(this.model), "text/csv", `${boardName(this.model)}-problems.csv`),
    });
    this.body = put(make("div", "board-body"), this.about, this.table.root, this.tools);
    put(this.body, this.grid.root, this.problem.root);
    put(root, put(make("div", "board-status-line"), this.status, this.bar), this.body);
    this.body.hidden = this.bar.hidden = true;
    this.ended = ended;
    this.sentence = this.status.textContent;
    this.model = null;
  }

  begin() {
    this.root.dataset.board = "loading";
    this.sentence = this.status.textContent = "Starting …";
  }

  open(message) {
    this.model = new BoardModel(message);
    this.body.hidden = false;
    this.about.textContent = describe(this.model);
    this.problem.close();
    this.table.open(this.model);
    this.grid.open(this.model);
    this.advance();
  }

  met(message) {
    this.model.meet(message);
    this.table.open(this.model);
    this.grid.open(this.model);
  }

  writing(message) {
    for (const number of message.problems) this.model.begin(message.lane, number);
    this.refresh(message.problems);
  }

  wrote(message) {
    this.model.finish(message);
    this.refresh([message.problem]);
    this.advance();
  }

  score(message) {
    this.model.scores.set(message.lane, message);
    this.table.draw(this.model, message.lane);
  }

  state(message) {
    this.root.dataset.board = message.state;
    this.bar.hidden = OVER.includes(message.state);
    super.state(message);
    if (!this.model) return;
    this.model.state = message;
    if (!OVER.includes(message.state)) return;
    this.refresh(this.model.abandon());
    for (const lane of this.model.lanes) this.table.draw(this.model, lane.key);
    keepBoard(this.model);
  }

  // Leave the drawing as it was.
  refusal({ sentence }) {
    this.root.dataset.board = "failed";
    this.say(sentence);
  }

  refresh(numbers) {
    for (const number of numbers) {
      this.grid.draw(this.model, number);
      if (this.problem.number === number) this.problem.open(this.model, number);
    }
  }

  advance() {
    this.bar.max = Math.max(1, this.model.problems.length * this.model.writers.length);
    this.bar.value = this.model.done;
  }

  show(number) {
    this.problem.open(this.model, number);
    this.grid.choose(number);
    bringIntoView(this.problem.root);
  }
}

// The same problems once more, and the files; shown once a board is over (board.css).
function boardTools(acts) {
  const tools = make("div", "board-tools");
  const labels = { again: "Same problems again", lanes: "Table as CSV", problems: "Problems as CSV" };
  for (const [name, label] of Object.entries(labels)) {
    tools.append(button(`board-button board-${name}`, label, acts[name]));
  }
  return tools;
}

function describe(model) {
  const which = model.task === "all" ? "all families in turn" : model.problems[0].family;
  const seeds = `seeds from ${model.first}`;
  const batch = `${model.batch} share each forward pass`;
  return `${model.count} problems, ${which}, ${seeds} · at most ${model.limit} tokens each · ${batch}`;
}

// The messages of the last board, or null: also when what is kept is none that this version can draw.
function lastBoard() {
  try {
    const messages = JSON.parse(kept(LAST_BOARD));
    const board = new Board(make("div"), {});
    messages.forEach((message) => board.hear(message));
    return messages;
  } catch {
    return null;
  }
}

export function mountBoard({ element, props, watch, tell, submit }) {
  const board = new Board(element.querySelector(".board"), { again: submit, ended: () => tell("select") });
  window.addEventListener("pagehide", () => {
    if (board.model && !OVER.includes(board.model.state.state)) keepBoard(board.model);
  });
  lastBoard()?.forEach((message) => board.hear(message));
  board.read(props.value);
  watch("value", () => board.read(props.value));
  board.root.dataset.ready = "true";
}

// One problem, opened below the grid: what was asked, what is right, and what each lane wrote.
class ProblemCard {
  constructor() {
    this.root = make("section", "board-card");
    this.close();
  }

  close() {
    this.root.hidden = true;
    this.number = null;
  }

  open(model, number) {
    const problem = model.problems[number];
    this.number = number;
    const title = make("h3", "", `Problem ${number + 1} · ${problem.family} · seed ${problem.seed}`);
    const { task, seed } = problem;
    const run = button("board-button board-run", "Run this one in Compare", () => announce("lens:problem", { task, seed }));
    const answer = put(make("p", "board-answer"), make("span", "", "Known answer"), make("b", "", problem.answer));
    const texts = put(make("div", "board-texts"), ...model.lanes.map((lane) => this.text(model, lane, number)));
    const question = put(make("div", "board-asked"), make("p", "board-prompt", problem.prompt), answer);
    clear(this.root).append(put(make("div", "board-card-top"), title, run), question, texts);
    this.root.setAttribute("aria-label", title.textContent);
    this.root.hidden = false;
  }

  text(model, lane, number) {
    const standing = model.standing(lane.key, number);
    const cell = model.cells[number].get(lane.key);
    const verdict = make("span", `board-verdict ${standing}`, `${SIGNS[standing]} ${WORDS[standing]}`.trim());
    const top = put(make("p", "board-text-top"), make("b", "board-title", lane.title), verdict);
    const box = put(make("article", `board-text ${familyClass(lane)}`), top);
    if (cell?.text === undefined) return box;
    const rate = decimals(cell.tokens / Math.max(1, cell.passes), 2);
    const cut = cell.reason === "length" ? " · cut at the length limit" : "";
    const counts = `${cell.tokens} tokens in ${cell.passes} passes · ${rate} tokens / forward${cut}`;
    return put(box, make("p", "board-small", counts), make("p", "board-wrote", cell.text));
  }
}
