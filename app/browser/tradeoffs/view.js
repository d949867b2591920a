// The tab: asks for a view whenever something is chosen, and shows what comes.

import { pageAddress } from "../shared/address.js";
import { button, make, offerFile, put, status } from "../shared/dom.js";
import { Questions } from "../shared/messages.js";
import { plural } from "../shared/tokens.js";
import { TradeCard, TradeSamples } from "./card.js";
import { budgetProblem, TradeBudget, TradeControls, TradeTable } from "./controls.js";
import { plotly, TradePlot } from "./plot.js";

const TRADE_TEXTS = { figure: "frontier", against: "tokens_per_second", runs: "", task: "all families" };
const TRADE_VIEW = { ...TRADE_TEXTS, points: 2, batch: 1 }; // the first one
const TRADE_POINTS = { least: 0.1, most: 50 };
const FORMULA = /^[=+@\t\r-]/; // a spreadsheet would compute a cell that begins so
const TRADE_NAMES = [...Object.keys(TRADE_VIEW), "run"];

class TradeView {
  constructor(root, questions) {
    Object.assign(this, { root, questions });
    this.view = { ...TRADE_VIEW };
    this.number = 0;
    const ask = (what, about) => this.questions.ask(what, { about });
    const change = (changed) => this.change(changed);
    const pick = (id) => this.pick(id);
    this.controls = new TradeControls(change);
    this.budget = new TradeBudget(change, pick);
    this.status = status("trade-status lens-note");
    this.notices = make("div", "trade-notices");
    this.plot = make("div", "trade-plot", "", { role: "group" });
    this.empty = make("p", "trade-empty");
    this.caption = make("figcaption", "lens-note");
    this.card = new TradeCard(ask, new TradeSamples(ask));
    this.card.onClose = () => this.pick(null);
    this.table = new TradeTable(pick);
    const csv = button("lens-tool", "Save the numbers as CSV", () => {
      if (this.shown) offerFile(csvOf(this.shown.table), "text/csv", `mars-lens-${this.view.figure}.csv`);
    });
    const figure = put(make("figure", "lens-stack"), this.plot, this.empty, this.caption);
    this.stage = put(make("div", "trade-stage"), figure, this.card.root);
    const summary = make("summary", "", "The numbers as a table");
    const numbers = put(make("details", "trade-numbers"), summary, this.table.root);
    this.parts = [this.budget.root, this.controls.root, this.status, this.notices, this.stage, numbers, csv];
    root.append(this.status); // alone, until a figure can be drawn
  }

  // Fetch the drawing library, whose address is `plotly`; then show the first view, for which Python may have to read
  // the runs.
  async begin({ plotly: address, templates, figures, points }) {
    this.status.textContent = "Reading the runs …";
    this.controls.fill("figure", figures);
    this.budget.begin(points);
    try {
      this.plotter = new TradePlot(this.plot, await plotly(address), templates, (id) => this.pick(id));
    } catch (error) {
      this.status.textContent = error.message;
      return;
    }
    this.root.append(...this.parts);
    await this.refresh();
    this.root.dataset.ready = "true";
  }

  notice(problems) {
    if (!problems.length) return;
    const title = `${plural(problems.length, "run or table", "runs or tables")} cannot be used`;
    const list = put(make("ul"), ...problems.map((problem) => make("li", "", problem)));
    this.notices.append(put(make("details", "lens-refusal"), make("summary", "", title), list));
  }

  change(change) {
    Object.assign(this.view, change);
    return this.refresh();
  }

  async refresh() {
    this.number += 1;
    const [mine, view] = [this.number, { ...this.view }];
    if (this.busy) return undefined; // the one under way asks again
    this.busy = true;
    this.root.dataset.state = "asking";
    const shown = await this.questions.ask("view", { about: view });
    this.busy = false;
    if (mine !== this.number) return this.refresh();
    if (shown.problem && mine === 1) return this.change(TRADE_VIEW); // a link named what is not there
    this.status.textContent = shown.problem ?? "";
    if (shown.problem) this.budget.say({}); // the answer to another view would mislead
    if (!shown.problem) await this.show(view, shown);
    this.root.dataset.figure = this.view.figure;
    this.root.dataset.state = "shown";
  }

  async show(view, shown) {
    if (!this.shown) this.notice(shown.problems);
    this.shown = shown;
    this.controls.show(view, shown);
    this.budget.show(shown.answer, view.points);
    this.caption.textContent = shown.caption;
    this.empty.textContent = shown.empty;
    this.empty.hidden = !shown.empty;
    this.plot.hidden = Boolean(shown.empty);
    this.plot.setAttribute("aria-label", `${this.controls.title}: the table has its numbers`);
    this.table.show(shown.table);
    this.say();
    if (!shown.empty) await this.plotter.show(shown.figure);
  }

  // Open the card of a run, or close it.
  pick(id) {
    this.picked = id;
    this.stage.classList.toggle("with-card", Boolean(id));
    this.table.mark(id);
    this.say();
    if (id) this.card.open(id);
    else this.card.leave();
  }

  say() {
    this.address?.say(addressOf(this.view, this.picked));
  }
}

// The table as a file of comma-separated values: numbers have all their digits, and intervals columns of their own.
export function csvOf({ columns, rows }) {
  const most = columns.map((_, place) => Math.max(0, ...rows.map(({ numbers }) => numbers[place].length)));
  const three = ({ label }) => [label, `${label}, low`, `${label}, high`];
  const heads = columns.map((column, place) => three(column).slice(0, most[place] || 1));
  const safe = (words) => (FORMULA.test(words) ? `'${words}` : words);
  const digits = (head, values) => head.map((_, end) => String(values[end] ?? ""));
  const values = ({ cells, numbers }) =>
    heads.flatMap((head, place) => (most[place] ? digits(head, numbers[place]) : [safe(cells[place])]));
  const quoted = (words) => `"${words.replaceAll('"', '""')}"`;
  const lines = [["Run", ...heads.flat()], ...rows.map((row) => [row.id, ...values(row)])];
  return lines.map((line) => `${line.map(quoted).join(",")}\r\n`).join("");
}

// The view as the names and values of an address, and back.
export function addressOf(view, run) {
  const said = Object.keys(TRADE_VIEW).map((name) => [name, view[name] === TRADE_VIEW[name] ? null : view[name]]);
  return { run, ...Object.fromEntries(said) };
}

// The view that an address asks for, and the names whose values are none.
export function viewOf(values) {
  const view = { ...TRADE_VIEW };
  const refused = [];
  for (const name of Object.keys(TRADE_TEXTS)) view[name] = values[name] ?? view[name];
  if (values.points !== undefined) {
    const points = Number(values.points || "?");
    if (budgetProblem(points, TRADE_POINTS.least, TRADE_POINTS.most)) refused.push("points");
    else view.points = points;
  }
  if (values.batch !== undefined) {
    if (/^[1-9]\d{0,3}$/.test(values.batch)) view.batch = Number(values.batch);
    else refused.push("batch");
  }
  return { view, run: values.run ?? null, refused };
}

// The tab. The value is Python's last answer.
export function mountTradeoffs({ element, props, watch, submit }) {
  const tab = new TradeView(element.querySelector(".trade"), new Questions({ props, watch, submit }));
  const restore = async (values) => {
    const { view, run, refused } = viewOf(values);
    const first = !tab.shown;
    Object.assign(tab.view, view);
    await begun;
    if (!first) await tab.refresh();
    if (run || tab.picked) tab.pick(run);
    return refused;
  };
  tab.address = pageAddress()?.join("tradeoffs", TRADE_NAMES, restore);
  const begun = tab.begin(props);
}
