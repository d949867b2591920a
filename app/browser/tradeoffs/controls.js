// The controls around a figure: what it shows, the accuracy budget with its answer, and the table of its numbers.

import { button, make, put, status } from "../shared/dom.js";

const SELECTS = {
  figure: "Question",
  runs: "Runs measured together",
  against: "Horizontal axis",
  batch: "Batch size",
  task: "Problems",
};

// Above the figure: which one, of which runs, against what, on which problems.
export class TradeControls {
  // `onChange` hears what has changed of the view.
  constructor(onChange) {
    this.root = make("div", "lens-row trade-controls");
    this.selects = {};
    for (const [name, label] of Object.entries(SELECTS)) {
      const select = make("select", "lens-field");
      const read = name === "batch" ? Number : String;
      select.addEventListener("change", () => onChange({ [name]: read(select.value) }));
      this.selects[name] = select;
      this.root.append(put(make("label", "trade-field lens-note"), make("span", "", label), select));
    }
  }

  show({ figure }, { axes, against, tasks, task, runs, batch }) {
    this.selects.figure.value = figure;
    if (!this.title) this.selects.figure.selectedIndex = 0; // an old link's, that is gone
    this.fill("against", axes, against);
    this.fill("runs", runs.options, runs.value);
    this.fill("batch", batch.options.map((value) => ({ value, label: value })), batch.value);
    this.fill("task", tasks, task);
  }

  // A list without a choice is hidden.
  fill(name, options, value) {
    const select = this.selects[name];
    select.parentElement.hidden = options.length < 2;
    select.replaceChildren(...options.map((option) => new Option(option.label, option.value)));
    if (options.some((option) => String(option.value) === String(value))) select.value = value;
  }

  get title() {
    return this.selects.figure.selectedOptions[0]?.label ?? "";
  }
}

// Why so many points are no budget; empty where they are one.
export function budgetProblem(points, least, most) {
  return points >= least && points <= most ? "" : `The budget must be from ${least} to ${most} points.`;
}

// How much accuracy may be lost, and the answer: one sentence, how it was found, and the way to the setting it names.
export class TradeBudget {
  // `onChange` hears {points}, `onOpen` the id of a run.
  constructor(onChange, onOpen) {
    this.onChange = onChange;
    this.points = make("input", "lens-field trade-points", "", { type: "number", step: 0.1 });
    this.points.addEventListener("change", () => this.allow());
    this.sentence = status("trade-sentence");
    this.open = button("lens-tool", "Show this setting", () => onOpen(this.run));
    this.how = make("p", "lens-note");
    const asked = make("label", "lens-row trade-allow");
    asked.append("Set an accuracy budget: lose at most", this.points, "points");
    const answer = put(make("div", "lens-row"), this.sentence, this.open);
    this.root = put(make("section", "lens-box lens-stack"), asked, answer, this.how);
  }

  begin({ least, most, value }) {
    Object.assign(this.points, { min: least, max: most, value });
  }

  // A budget that cannot be is answered with the reason; the answer to another one would mislead.
  allow() {
    const points = this.points.valueAsNumber;
    const problem = budgetProblem(points, Number(this.points.min), Number(this.points.max));
    if (problem) this.say({ sentence: problem });
    else this.onChange({ points });
    this.points.setAttribute("aria-invalid", String(Boolean(problem)));
  }

  show(answer, points) {
    this.root.hidden = !answer;
    if (document.activeElement !== this.points) this.points.value = points;
    this.points.setAttribute("aria-invalid", "false");
    this.say(answer ?? {});
  }

  say({ sentence = "", how = "", run = null }) {
    this.run = run;
    this.sentence.textContent = sentence;
    this.how.textContent = how;
    this.open.hidden = !run;
  }
}

// The numbers of the figure as a table, in which each row opens the card of its run.
export class TradeTable {
  constructor(onPick) {
    this.onPick = onPick;
    const scrolls = { tabindex: 0, role: "region", "aria-label": "The numbers of the figure" };
    this.root = make("div", "lens-scroll trade-scroll", "", scrolls);
  }

  show({ columns, rows }) {
    this.columns = columns;
    const heads = columns.map(({ label, number }) => make("th", number ? "number" : "", label, { scope: "col" }));
    const body = put(make("tbody"), ...rows.map((row) => this.row(row)));
    this.root.replaceChildren(put(make("table", "lens-table"), put(make("thead"), put(make("tr"), ...heads)), body));
    this.mark(this.picked);
  }

  mark(id) {
    this.picked = id;
    for (const row of this.root.querySelectorAll("tbody tr")) row.classList.toggle("picked", row.dataset.run === id);
  }

  row({ id, cells }) {
    const row = make("tr", "", "", { "data-run": id });
    cells.forEach((words, place) => {
      const kind = this.columns[place].number ? "number" : "";
      const cell = place ? make("td", kind) : make("th", kind, "", { scope: "row" });
      const title = "Show the card of this run";
      const open = () => button("lens-link-like trade-open", words, () => this.onPick(id), { title });
      row.append(put(cell, !place && id ? open() : words));
    });
    return row;
  }
}
