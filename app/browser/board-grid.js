// The grid of problems: families as blocks, a column for each problem, in it a cell for each lane. A column is a
// button; arrow keys walk from one to the next, Enter or a click opens it.

const SIGNS = { pending: "", writing: "…", right: "✓", wrong: "×", stopped: "–", absent: "" };
const WORDS = {
  pending: "not begun",
  writing: "writing",
  right: "right",
  wrong: "wrong",
  stopped: "stopped",
  absent: "cannot write",
};

class ProblemGrid {
  constructor(onOpen) {
    this.root = make("div", "board-grid");
    this.onOpen = onOpen;
    this.columns = [];
    this.root.addEventListener("click", (event) => this.press(event.target));
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
    const column = make("button", "board-column");
    column.type = "button";
    column.dataset.problem = number;
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

  press(target) {
    const column = target.closest(".board-column");
    if (column) this.onOpen(Number(column.dataset.problem));
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
    const square = make("span", "board-square", SIGNS[standing]);
    square.dataset.standing = standing;
    square.setAttribute("aria-hidden", "true");
    signs.append(put(make("li"), square, make("span", "", WORDS[standing])));
  }
  const differ = put(make("li"), make("span", "board-differs"), make("span", "", "the lanes differ"));
  return put(make("div", "board-legend"), lanes, put(signs, differ));
}
