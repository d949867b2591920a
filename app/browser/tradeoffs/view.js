// The tab: asks for a view whenever something is chosen, and shows what comes.

import { pageAddress } from "../shared/address.js";
import { button, make, offerFile, put, status } from "../shared/dom.js";
import { hearValue, QuestionQueue } from "../shared/messages.js";
import { TradeCard, TradeSamples } from "./card.js";
import { budgetProblem, TradeAnswer, TradeControls, TradeFilters, TradeTable } from "./controls.js";
import { LiveList, plotly, TradePlot } from "./plot.js";

const TRADE_FILTERS = ["scale", "checkpoint", "block_size", "sft_loss", "decoder", "score", "batch_size", "hardware"];
const TRADE_START = { figure: "frontier", against: "tokens_per_second", runs: "", task: "all families", published: "" };
const TRADE_VIEW = { ...TRADE_START, points: 2, batch: 1, more: false, chosen: null }; // the first one
const TRADE_POINTS = { least: 0.1, most: 50 };
const TRADE_NAMES = [...Object.keys(TRADE_START), "points", "batch", "more", "run", "all", ...TRADE_FILTERS];

class TradeView {
  // `plotlyAddress` is where the drawing library is.
  constructor(root, questions, plotlyAddress) {
    Object.assign(this, { root, questions, plotlyAddress });
    this.view = { ...TRADE_VIEW };
    this.number = 0;
    const ask = (what, about, onWay) => this.questions.ask(what, about, onWay);
    this.controls = new TradeControls((change) => this.change(change));
    this.filters = new TradeFilters((chosen) => this.change({ chosen }));
    this.status = status("trade-status");
    this.notices = make("div", "trade-notices");
    this.answer = new TradeAnswer((id) => this.pick(id));
    this.more = button("trade-button", "", () => this.change({ more: !this.view.more }));
    this.plot = make("div", "trade-plot", "", { role: "group" });
    this.empty = make("p", "trade-empty");
    this.caption = make("figcaption", "trade-caption");
    this.live = new LiveList((lanes) => this.follow(lanes));
    this.card = new TradeCard(ask, new TradeSamples(ask));
    this.card.onClose = () => this.pick(null);
    this.table = new TradeTable((id) => this.pick(id));
    this.lay();
  }

  lay() {
    const figure = put(make("figure", "trade-figure"), this.plot, this.more, this.empty, this.caption, this.live.root);
    this.stage = put(make("div", "trade-stage"), figure, this.card.root);
    this.numbers = put(make("details", "trade-numbers"), make("summary", "", "The numbers as a table"), this.table.root);
    this.allow = put(make("section", "trade-operating"), this.controls.allowed, this.controls.refused, this.answer.root);
    put(this.root, this.allow, this.controls.root, this.status, this.notices);
    put(this.root, this.stage, this.filters.root, this.numbers, this.files());
    this.body = [this.allow, this.controls.root, this.stage, this.filters.root, this.numbers, this.saving];
    for (const part of this.body) part.hidden = true;
  }

  files() {
    this.png = button("trade-button", "Save as PNG", () => this.savePicture());
    const csv = button("trade-button", "Save the numbers as CSV", () => this.saveNumbers());
    const reload = button("trade-button", "Reload the runs", () => this.begin("reload"));
    this.saving = put(make("div", "trade-row"), this.png, csv, reload);
    return this.saving;
  }

  // Read the runs, which may take a moment, and the drawing library; then show the first view.
  async begin(what) {
    const say = (words) => (this.status.textContent = words);
    say("Reading the runs …");
    const [told, drawing] = await Promise.all([
      this.questions.ask(what, this.view, say),
      plotly(this.plotlyAddress).catch((error) => ({ problem: error.message })),
    ]);
    const problem = told.problem ?? drawing.problem;
    if (problem) return say(problem);
    const hears = { onPick: (id) => this.pick(id), onSeen: () => this.follow(this.live.lanes) };
    this.plotter ??= new TradePlot(this.plot, drawing, told.templates, hears);
    this.controls.begin(told);
    this.notice(told.problems);
    for (const part of this.body) part.hidden = false;
    await this.refresh(told.shown);
    if (what === "reload") say(told.changed ? "The runs were read again." : "Nothing has changed since they were read.");
    this.root.dataset.ready = "true";
    return undefined;
  }

  notice(problems) {
    this.notices.replaceChildren();
    if (!problems.length) return;
    const one = problems.length === 1;
    const title = `${problems.length} ${one ? "run or table" : "runs or tables"} cannot be used`;
    const list = put(make("ul"), ...problems.map((problem) => make("li", "", problem)));
    this.notices.append(put(make("details", "trade-notice"), make("summary", "", title), list));
  }

  // A new figure starts with its own selection unless the person has chosen one.
  change(change) {
    Object.assign(this.view, change);
    return this.refresh();
  }

  // Show the view as it is now; `known` is Python's answer where it has been given already.
  async refresh(known) {
    this.number += 1;
    const [mine, view] = [this.number, { ...this.view }];
    if (this.busy) return undefined; // the one under way asks again
    this.busy = true;
    this.root.dataset.state = "asking";
    const shown = known ?? (await this.questions.ask("view", view, (words) => (this.status.textContent = words)));
    this.busy = false;
    if (mine !== this.number) return this.refresh();
    this.status.textContent = shown.problem ?? (shown.stale ? "The runs on disk have changed: reload them." : "");
    if (!shown.problem) await this.show(view, shown);
    else if (!this.shown && !this.tried) await this.retreat(shown.problem);
    this.root.dataset.figure = this.view.figure;
    this.root.dataset.state = "shown";
    return undefined;
  }

  // An address asked for what there is not: begin where the tab begins by itself, and say so.
  async retreat(problem) {
    this.tried = true;
    this.view = { ...TRADE_VIEW, points: this.view.points };
    await this.refresh();
    this.status.textContent = problem;
  }

  async show(view, shown) {
    this.shown = shown;
    this.controls.show(view, shown);
    this.filters.show(shown);
    this.answer.show(shown.answer);
    this.allow.hidden = !shown.answer;
    this.more.hidden = !shown.more;
    this.more.textContent = shown.more?.on ? "Show fewer series" : `More: ${shown.more?.count} further series`;
    this.caption.textContent = shown.caption;
    this.empty.textContent = shown.empty;
    this.empty.hidden = !shown.empty;
    this.plot.hidden = this.png.disabled = Boolean(shown.empty);
    this.plot.setAttribute("aria-label", `${this.controls.figure.selectedOptions[0].label}: the table has its numbers`);
    this.table.show(shown.table);
    this.live.show(shown.live);
    this.say();
    if (shown.empty) return;
    this.plotter.lanes = this.live.lanes;
    await this.plotter.show(shown.figure, shown.live);
  }

  follow(lanes) {
    if (!this.shown || this.shown.empty) return;
    this.live.show(this.shown.live);
    this.plotter.follow(lanes);
  }

  // Open the card of a run, or close it.
  pick(id) {
    this.picked = id;
    this.stage.classList.toggle("with-card", Boolean(id));
    this.table.mark(id);
    this.say();
    if (id) this.card.open(id);
  }

  async savePicture() {
    const picture = await this.plotter.picture();
    offerFile(picture, "image/png", `mars-lens-${this.view.figure}.png`);
  }

  async saveNumbers() {
    const { text, name, problem } = await this.questions.ask("csv", this.view);
    if (problem) this.status.textContent = problem;
    else offerFile(text, "text/csv", name);
  }

  say() {
    this.address?.say(addressOf(this.view, this.picked));
  }
}

// The view as the names and values of an address, and back. A filter's values are joined by "|".
export function addressOf(view, run) {
  const said = { run };
  for (const name of [...Object.keys(TRADE_START), "points", "batch"]) {
    said[name] = view[name] === TRADE_VIEW[name] ? null : view[name];
  }
  said.more = view.more ? "yes" : null;
  const chosen = Object.entries(view.chosen ?? {}).filter(([, values]) => values.length);
  if (view.chosen) said.all = chosen.length ? null : "yes";
  for (const [name, values] of chosen) said[name] = values.join("|");
  return said;
}

// The view that an address asks for, and the names whose values are none.
export function viewOf(values) {
  const view = { ...TRADE_VIEW };
  const refused = [];
  for (const name of Object.keys(TRADE_START)) if (values[name] !== undefined) view[name] = values[name];
  if (values.points !== undefined) {
    const points = Number(values.points || "?");
    if (budgetProblem(points, TRADE_POINTS.least, TRADE_POINTS.most)) refused.push("points");
    else view.points = points;
  }
  if (values.batch !== undefined) {
    if (/^[1-9]\d{0,3}$/.test(values.batch)) view.batch = Number(values.batch);
    else refused.push("batch");
  }
  view.more = values.more === "yes";
  const filters = TRADE_FILTERS.filter((name) => values[name] !== undefined);
  if (filters.length || values.all) view.chosen = {};
  for (const name of filters) view.chosen[name] = values[name].split("|");
  return { view, run: values.run ?? null, refused };
}

// The tab. The value is Python's last answer.
export function mountTradeoffs({ element, props, watch, submit }) {
  const questions = new QuestionQueue(submit);
  hearValue({ props, watch }, (answer) => questions.hear(answer));
  const tab = new TradeView(element.querySelector(".trade"), questions, props.plotly);
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
  const begun = tab.begin("begin");
}
