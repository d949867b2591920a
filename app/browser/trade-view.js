// The tab: asks for a view whenever something is chosen, and shows what comes.

class TradeView {
  // `library` is the address of the drawing library.
  constructor(root, line, keeper, library) {
    Object.assign(this, { root, line, keeper, library });
    this.view = { ...TRADE_START, chosen: null };
    this.number = 0;
    const ask = (what, about, onWay) => this.line.ask(what, about, onWay);
    this.controls = new TradeControls((change) => this.change(change));
    this.filters = new TradeFilters((chosen) => this.change({ chosen }));
    this.news = make("p", "trade-news");
    this.news.setAttribute("role", "status");
    this.notices = make("div", "trade-notices");
    this.findings = make("div", "trade-findings");
    this.plot = make("div", "trade-plot");
    this.empty = make("p", "trade-empty");
    this.caption = make("figcaption", "trade-caption");
    this.live = new LiveList(keeper, (lanes) => this.follow(lanes));
    this.card = new TradeCard(ask, new TradeSamples(ask, keeper));
    this.card.onClose = () => this.pick(null);
    this.table = new TradeTable((id) => this.pick(id));
    this.lay();
  }

  lay() {
    const figure = put(make("figure", "trade-figure"), this.plot, this.empty, this.caption, this.live.root);
    this.stage = put(make("div", "trade-stage"), figure, this.card.root);
    this.numbers = put(make("details", "trade-numbers"), make("summary", "", "The numbers as a table"), this.table.root);
    const allow = put(make("section", "trade-operating"), this.controls.allowed, this.findings);
    put(this.root, this.controls.root, this.filters.root, this.news, this.notices);
    put(this.root, allow, this.stage, this.files(), this.numbers);
    this.body = [this.controls.root, this.filters.root, allow, this.stage, this.saving, this.numbers];
    for (const part of this.body) part.hidden = true;
  }

  files() {
    const button = (words, act) => {
      const made = make("button", "trade-button", words);
      made.type = "button";
      made.addEventListener("click", act);
      return made;
    };
    this.saving = make("div", "trade-row");
    this.png = button("Save as PNG", () => this.savePicture());
    const csv = button("Save the numbers as CSV", () => this.saveNumbers());
    return put(this.saving, this.png, csv, button("Reload the runs", () => this.begin("reload")));
  }

  // Read the runs, which may take a moment, and the drawing library; then show the first view.
  async begin(what) {
    const say = (words) => (this.news.textContent = words);
    say("Reading the runs …");
    const [told, library] = await Promise.all([
      this.line.ask(what, {}, say),
      plotly(this.library).catch((error) => ({ problem: error.message })),
    ]);
    const problem = told.problem ?? library.problem;
    if (problem) return say(problem);
    const hears = { onPick: (id) => this.pick(id), onSeen: () => this.follow(this.live.lanes) };
    this.plotter ??= new TradePlot(this.plot, library, told.templates, hears);
    this.controls.begin(told);
    this.view.points ??= told.points.value;
    this.notice(told.problems);
    for (const part of this.body) part.hidden = false;
    await this.refresh();
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

  async refresh() {
    this.number += 1;
    const [mine, view] = [this.number, { ...this.view }];
    if (this.busy) return undefined; // the one under way asks again
    this.busy = true;
    this.root.dataset.state = "asking";
    const shown = await this.line.ask("view", view, (words) => (this.news.textContent = words));
    this.busy = false;
    if (mine !== this.number) return this.refresh();
    this.news.textContent = shown.problem ?? (shown.stale ? "The runs on disk have changed: reload them." : "");
    if (!shown.problem) await this.show(view, shown);
    else if (!this.shown && !this.tried) await this.retreat(shown.problem);
    this.root.dataset.figure = this.view.figure;
    this.root.dataset.state = "shown";
    return undefined;
  }

  // An address asked for what there is not: begin where the tab begins by itself, and say so.
  async retreat(problem) {
    this.tried = true;
    Object.assign(this.view, TRADE_START, { chosen: null });
    await this.refresh();
    this.news.textContent = problem;
  }

  async show(view, shown) {
    this.shown = shown;
    this.controls.show(view, shown);
    this.filters.show(shown);
    this.findings.replaceChildren(...shown.findings.map((sentence) => make("p", "", sentence)));
    this.caption.textContent = shown.caption;
    this.empty.textContent = shown.empty;
    this.empty.hidden = !shown.empty;
    this.plot.hidden = this.png.disabled = Boolean(shown.empty);
    this.plot.setAttribute("role", "group");
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
    if (id) return this.card.open(id);
    return undefined;
  }

  async savePicture() {
    const picture = await this.plotter.picture();
    offerFile(picture, "image/png", `mars-lens-${this.view.figure}.png`);
  }

  async saveNumbers() {
    const { text, name, problem } = await this.line.ask("csv", this.view);
    if (problem) this.news.textContent = problem;
    else offerFile(text, "text/csv", name);
  }

  say() {
    this.address?.say(addressOf(this.view, this.picked));
  }
}
