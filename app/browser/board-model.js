// What a score board knows: the problems, the lanes, a cell for each of both, and the last row of counts of each lane.
// `messages` is the shortest stream that draws it again: so the last board survives a reload of the page.

const OVER = ["done", "stopped", "failed"];
const LAST_BOARD = "mars-lens:last-board";
const MOST_OF_BOARD = 700_000; // characters; the last run has its own, larger share of what browsers keep

class BoardModel {
  constructor(opening) {
    this.opening = opening;
    Object.assign(this, opening);
    this.baseline = null;
    this.state = { state: "loading", sentence: "" };
    this.scores = new Map();
    this.cells = opening.problems.map(() => new Map());
    this.done = 0;
  }

  get writers() {
    return this.lanes.filter((lane) => !lane.problem);
  }

  meet({ lanes, baseline }) {
    this.lanes = lanes;
    this.baseline = baseline;
  }

  lane(key) {
    return this.lanes.find((lane) => lane.key === key);
  }

  // pending, writing, right, wrong, or stopped
  standing(key, number) {
    const cell = this.cells[number].get(key);
    if (!cell) return this.lane(key).problem ? "absent" : "pending";
    return cell.text === undefined ? cell.standing : cell.right ? "right" : "wrong";
  }

  differs(number) {
    const verdicts = new Set(this.writers.map((lane) => this.standing(lane.key, number)));
    return verdicts.has("right") && verdicts.has("wrong");
  }

  begin(key, number) {
    this.cells[number].set(key, { standing: "writing" });
  }

  finish(message) {
    if (this.cells[message.problem].get(message.lane)?.text === undefined) this.done += 1;
    this.cells[message.problem].set(message.lane, message);
  }

  // What is still being written is never finished; the numbers of these problems.
  abandon() {
    const found = [];
    this.cells.forEach((cells, number) => {
      for (const cell of cells.values()) {
        if (cell.standing === "writing") {
          cell.standing = "stopped";
          found.push(number);
        }
      }
    });
    return found;
  }

  get messages() {
    const wrote = this.cells.flatMap((cells) => [...cells.values()].filter((cell) => cell.text !== undefined));
    const sentence = "The page was left while this was written. It shows what there was.";
    const state = OVER.includes(this.state.state) ? this.state : { kind: "state", state: "stopped", sentence };
    const met = this.baseline ? [{ kind: "met", lanes: this.lanes, baseline: this.baseline }] : [];
    return [this.opening, ...met, ...wrote, ...this.scores.values(), state];
  }
}

// Storage may be full or forbidden: then the board is not kept, and nothing else changes.
function rememberBoard(model) {
  try {
    const text = JSON.stringify(model.messages);
    if (!model.done) return;
    localStorage.removeItem(LAST_BOARD);
    if (text.length <= MOST_OF_BOARD) localStorage.setItem(LAST_BOARD, text);
  } catch {
    return;
  }
}

// The messages of the last board, or null: also when what is kept is none that this version can draw.
function recallBoard() {
  try {
    const messages = JSON.parse(localStorage.getItem(LAST_BOARD));
    const trial = new Board(make("div"), () => {});
    messages.forEach((message) => trial.hear(message));
    return messages;
  } catch {
    return null;
  }
}
