// The score board: reads the growing value, line by line, and draws it. The value starts anew with every board.

class Board {
  // `again` hears {count, task, first} of a board whose problems are wanted once more.
  constructor(root, again) {
    this.root = root;
    this.status = make("p", "board-status", "Choose how many problems and of which family, then press Score.");
    this.status.setAttribute("role", "status");
    this.bar = make("progress", "board-bar");
    this.bar.setAttribute("aria-label", "Answers that are there");
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
    put(root, put(make("div", "board-news"), this.status, this.bar), this.body);
    this.body.hidden = this.bar.hidden = true;
    this.lines = new Lines((message) => this.hear(message));
    this.model = null;
  }

  read(value) {
    this.lines.read(value);
  }

  hear(message) {
    this[message.kind](message);
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
    this.status.textContent = message.sentence;
    this.bar.hidden = OVER.includes(message.state);
    if (!this.model) return;
    this.model.state = message;
    if (!OVER.includes(message.state)) return;
    this.refresh(this.model.abandon());
    for (const lane of this.model.lanes) this.table.draw(this.model, lane.key);
    rememberBoard(this.model);
  }

  refusal(message) {
    this.root.dataset.board = "failed";
    this.status.textContent = message.sentence;
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
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.problem.root.scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
  }
}

// The same problems once more, and the files; shown once a board is over (board.css).
function boardTools(acts) {
  const tools = make("div", "board-tools");
  const labels = { again: "Same problems again", lanes: "Table as CSV", problems: "Problems as CSV" };
  for (const [name, label] of Object.entries(labels)) {
    const button = make("button", `board-button board-${name}`, label);
    button.type = "button";
    button.addEventListener("click", acts[name]);
    tools.append(button);
  }
  return tools;
}

function describe(model) {
  const which = model.task === "all" ? "all families in turn" : model.problems[0].family;
  const seeds = `seeds from ${model.first}`;
  const batch = `${model.batch} share each forward pass`;
  return `${model.count} problems, ${which}, ${seeds} · at most ${model.limit} tokens each · ${batch}`;
}

const board = new Board(element.querySelector(".board"), (asked) => trigger("submit", asked));
const keepBoard = () => {
  if (board.model && !OVER.includes(board.model.state.state)) rememberBoard(board.model);
};
window.addEventListener("pagehide", keepBoard);
const before = recallBoard();
if (props.value) board.read(props.value);
else if (before) before.forEach((message) => board.hear(message));
watch("value", () => board.read(props.value));
board.root.dataset.ready = "true";
