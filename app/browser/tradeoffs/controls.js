// The controls around a figure: its axis, its runs, and the table of its numbers.

import { button, checkbox, make, put, status } from "../shared/dom.js";

// Above the figure: which one, against what, on which problems, with what was published, and how much may be lost.
export class TradeControls {
  // `onChange` hears what has changed of the view.
  constructor(onChange) {
    this.onChange = onChange;
    this.root = make("div", "trade-controls");
    this.figure = this.select("Figure", "figure");
    this.runs = this.select("Runs measured together", "runs");
    this.against = this.select("Horizontal axis", "against");
    this.batch = this.select("Batch size", "batch", Number);
    this.task = this.select("Problems", "task");
    this.layer = this.select("Which published numbers", "published");
    this.published = checkbox(false, () => this.onChange({ published: this.published.checked ? this.layer.value : "" }));
    this.switch = put(make("label", "trade-switch"), this.published, make("span", "", "Published curves"));
    this.points = make("input", "trade-points", "", { type: "number" });
    this.points.addEventListener("change", () => this.allow());
    this.allowed = put(make("label", "trade-allow"), "Set an accuracy budget: lose at most", this.points, "points");
    this.refused = status("trade-refused");
    const layer = put(make("div", "trade-layer"), this.switch, this.layer.parentElement);
    const selects = [this.figure, this.against, this.batch, this.task, this.runs];
    put(this.root, ...selects.map((select) => select.parentElement), layer);
  }

  select(label, name, read = String) {
    const select = make("select", "trade-select");
    select.addEventListener("change", () => this.onChange({ [name]: read(select.value) }));
    put(make("label", "trade-field"), make("span", "", label), select);
    return select;
  }

  begin({ figures, points }) {
    fill(this.figure, figures);
    Object.assign(this.points, { min: points.least, max: points.most, step: 0.1, value: points.value });
  }

  // A budget that cannot be is answered, and the one before stays.
  allow() {
    const points = this.points.valueAsNumber;
    const problem = budgetProblem(points, Number(this.points.min), Number(this.points.max));
    this.refused.textContent = problem;
    this.points.setAttribute("aria-invalid", String(Boolean(problem)));
    if (!problem) this.onChange({ points });
  }

  show(view, { axes, against, tasks, task, layers, layer, runs, batch }) {
    this.figure.value = view.figure;
    const named = (values) => values.map((value) => ({ value, label: value }));
    fill(this.against, axes, against, 2);
    fill(this.runs, runs.options, runs.value, 2);
    fill(this.batch, named(batch.options), String(batch.value), 1);
    fill(this.task, tasks, task, 2);
    fill(this.layer, named(layers), layer || this.layer.value);
    this.published.checked = Boolean(layer);
    this.published.disabled = layers.length === 0;
    this.switch.title = layers.length ? "From arXiv 2604.07023: other models, no intervals" : "No published numbers for this view";
    this.layer.parentElement.hidden = !layer || layers.length < 2;
    if (document.activeElement !== this.points && !this.refused.textContent) this.points.value = view.points;
  }
}

// A list with fewer options than `fewest` is hidden.
function fill(select, options, value = select.value, fewest = 0) {
  select.parentElement.hidden = options.length < fewest;
  select.replaceChildren(...options.map((option) => new Option(option.label, option.value)));
  if (options.some((option) => String(option.value) === value)) select.value = value;
}

// Why so many points are no budget; empty where they are one.
export function budgetProblem(points, least, most) {
  const range = `Enter ${least} to ${most} points.`;
  if (!Number.isFinite(points)) return `The budget must be a number. ${range}`;
  if (points < 0) return `The budget cannot be negative. ${range}`;
  if (points < least) {
    return `No measurement can show a loss of ${points ? `at most ${points}` : "exactly 0"} points. ${range}`;
  }
  if (points > most) return `With a budget of ${points} points almost any answer would do. ${range}`;
  return "";
}

// The answer to the budget: one sentence, how it was found, and the way to the setting it names.
export class TradeAnswer {
  // `onOpen` hears the id of the run.
  constructor(onOpen) {
    this.root = make("div", "trade-answer");
    this.sentence = status("trade-sentence");
    this.open = button("trade-button", "Show this setting", () => onOpen(this.run));
    this.how = make("p", "trade-small trade-how");
    put(this.root, put(make("div", "trade-row"), this.sentence, this.open), this.how);
  }

  show(answer) {
    this.root.hidden = !answer;
    this.run = answer?.run ?? null;
    this.sentence.textContent = answer?.sentence ?? "";
    this.how.textContent = answer?.how ?? "";
    this.open.hidden = !this.run;
  }
}

// Which runs are looked at: a group of switches for every property, each with the number of runs that it would show.
export class TradeFilters {
  // `onChange` hears {filter: [values]}, or null for the selection that the figure starts with.
  constructor(onChange) {
    this.onChange = onChange;
    this.root = make("details", "trade-filters");
    this.summary = make("summary");
    this.count = make("b");
    this.words = make("span", "trade-words");
    put(this.summary, make("span", "trade-summary-title", "Filters"), this.count, this.words);
    this.groups = make("div", "trade-groups");
    this.all = button("trade-button", "Show all runs", () => this.onChange({}));
    this.usual = button("trade-button", "Reset the filters", () => this.onChange(null));
    put(this.root, this.summary, this.groups, put(make("div", "trade-row"), this.all, this.usual));
  }

  show({ filters, words, summary, usual }) {
    this.root.hidden = !filters.length;
    const focus = this.groups.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.chosen = Object.fromEntries(
      filters.map(({ name, options }) => [name, options.filter(({ on }) => on).map(({ value }) => value)]),
    );
    this.count.textContent = summary;
    this.words.textContent = words;
    this.all.disabled = !words;
    this.usual.disabled = usual;
    this.groups.replaceChildren(...filters.map((filter) => this.group(filter)));
    if (focus) this.groups.querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus();
  }

  group({ name, label, options }) {
    const group = put(make("fieldset", "trade-group"), make("legend", "", label));
    for (const { value, count, on } of options) {
      const input = checkbox(on, () => this.toggle(name, value, input.checked), { "data-key": `${name} ${value}` });
      input.disabled = !count && !on;
      const pill = put(make("label", "trade-pill"), input, make("span", "", value), make("small", "", String(count)));
      group.append(pill);
    }
    return group;
  }

  toggle(name, value, on) {
    const values = (this.chosen[name] ?? []).filter((other) => other !== value);
    this.onChange({ ...this.chosen, [name]: on ? [...values, value] : values });
  }
}

// The numbers of the figure: a table that sorts by any column. Each row opens the card of its run.
export class TradeTable {
  constructor(onPick) {
    this.onPick = onPick;
    const scrolls = { tabindex: 0, role: "region", "aria-label": "The numbers of the figure" };
    this.root = make("div", "trade-scroll", "", scrolls);
    this.sorted = null; // {label, up}
  }

  show({ columns, rows }) {
    Object.assign(this, { columns, rows });
    if (!columns.some(({ label }) => label === this.sorted?.label)) this.sorted = null;
    this.draw();
  }

  mark(id) {
    this.picked = id;
    for (const row of this.root.querySelectorAll("tbody tr")) row.classList.toggle("picked", row.dataset.run === id);
  }

  draw() {
    const head = make("tr");
    this.columns.forEach((column, place) => head.append(this.heading(column, place)));
    const body = put(make("tbody"), ...this.order().map((row) => this.row(row)));
    const table = put(make("table", "trade-table"), put(make("thead"), head), body);
    this.root.replaceChildren(table);
    this.mark(this.picked);
  }

  heading({ label, number }) {
    const cell = make("th", number ? "number" : "", "", { scope: "col" });
    const { up } = this.sorted?.label === label ? this.sorted : {};
    if (up !== undefined) cell.setAttribute("aria-sort", up ? "ascending" : "descending");
    const arrow = make("span", "trade-arrow", up === undefined ? "" : up ? "▲" : "▼");
    return put(cell, put(button("trade-sort", label, () => this.sort(label, number)), arrow));
  }

  // Numbers begin with the largest, words with the first letter; once more turns it round.
  sort(label, number) {
    const up = this.sorted?.label === label ? !this.sorted.up : !number;
    this.sorted = { label, up };
    this.draw();
    const place = this.columns.findIndex((column) => column.label === label);
    this.root.querySelectorAll(".trade-sort")[place].focus();
  }

  order() {
    if (!this.sorted) return this.rows;
    const place = this.columns.findIndex(({ label }) => label === this.sorted.label);
    const way = this.sorted.up ? 1 : -1;
    const key = ({ cells }) => (cells[place].length > 1 ? cells[place][1] : cells[place][0] || null);
    return [...this.rows].sort((one, other) => {
      const [a, b] = [key(one), key(other)];
      if (a === null || b === null) return (a === null) - (b === null); // what is not known comes last
      return way * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
    });
  }

  row({ id, cells }) {
    const row = make("tr", "", "", { "data-run": id });
    cells.forEach(([words], place) => {
      const cell = make(place ? "td" : "th", this.columns[place].number ? "number" : "");
      if (!place) cell.scope = "row";
      const opens = !place && id;
      const title = "Show the card of this run";
      row.append(put(cell, opens ? button("trade-open", words, () => this.onPick(id), { title }) : words));
    });
    return row;
  }
}
