// Which run to step through: the last ones of this browser, the shipped ones, or a file; and saving what is shown.

class Shelf {
  // `line` asks Python, `keeper` holds the runs of this page; `onOpen` hears the run to show and where to begin.
  constructor(root, { line, keeper, shipped, largest }, onOpen) {
    Object.assign(this, { root, line, keeper, shipped, largest, onOpen });
    this.shown = null;
    this.coming = false; // whether a run was asked for that is not there yet
    this.choice = make("select", "step-choice");
    this.choice.addEventListener("change", () => this.pick(this.choice.value));
    this.file = make("input", "step-file");
    Object.assign(this.file, { type: "file", accept: ".json,application/json", hidden: true });
    this.file.addEventListener("change", () => this.load(this.file.files[0]));
    this.news = make("p", "step-news");
    this.news.setAttribute("role", "alert");
    this.save = this.button("Save run", "step-save", () => this.download());
    this.export = this.button("Export replay", "step-export", () => this.replay());
    const label = put(make("label", "step-choose"), make("span", "", "Run"), this.choice);
    const open = this.button("Open file", "step-open", () => this.file.click());
    this.bar = put(make("div", "step-shelf"), label, open, this.save, this.export, this.file);
    this.offers = put(make("div", "step-offers"));
    put(root, this.bar, this.news, this.offers);
    this.list();
  }

  button(text, name, act) {
    const node = make("button", `step-button ${name}`, text);
    node.type = "button";
    node.addEventListener("click", act);
    return node;
  }

  // The choice, and while nothing is shown the shipped runs as an offer.
  list() {
    const groups = [["This browser", [...this.keeper.runs.values()].reverse().map((run) => [run.id, nameOf(run)])]];
    groups.push(["Shipped", this.shipped.map(({ name, title }) => [`shipped:${name}`, title])]);
    clear(this.choice);
    if (!this.shown) this.choice.append(new Option("choose one", ""));
    for (const [label, entries] of groups.filter(([, found]) => found.length)) {
      const group = make("optgroup");
      group.label = label;
      for (const [value, text] of entries) group.append(new Option(text, value));
      this.choice.append(group);
    }
    this.choice.value = this.shown ? this.shown.value : "";
    this.save.disabled = this.export.disabled = !this.shown;
    this.offers.hidden = Boolean(this.shown);
    if (this.shown) return;
    const intro = "See what the model saw and said in each forward pass: of your next run in Compare, of a file, or of these runs:";
    clear(this.offers).append(make("p", "step-intro", intro), ...this.shipped.map((offer) => this.offer(offer)));
  }

  offer({ name, title, note, lanes }) {
    const node = make("button", "step-offer");
    node.type = "button";
    node.addEventListener("click", () => this.pick(`shipped:${name}`));
    return put(node, make("b", "", title), make("span", "step-offer-note", note), make("span", "step-about", lanes));
  }

  async pick(value, place = {}) {
    this.coming = true;
    const run = value.startsWith("shipped:") ? await this.read("shipped", value.slice(8)) : this.keeper.open(value);
    this.coming = false;
    if (run) this.show(value, run, place);
  }

  show(value, run, place = {}) {
    this.news.textContent = "";
    this.shown = { value, run };
    this.list();
    this.onOpen(run, place);
  }

  // What Python answers, or null after saying why not.
  async ask(what, text) {
    const answer = await this.line.ask(what, text);
    this.news.textContent = answer.problem ?? "";
    return answer.problem ? null : answer;
  }

  async read(what, text) {
    const answer = await this.ask(what, text);
    return answer && JSON.parse(answer.run);
  }

  async load(file) {
    if (!file) return;
    if (file.size > this.largest) {
      this.news.textContent = `This file has ${megabytes(file.size)}; a run has at most ${megabytes(this.largest)}.`;
      return;
    }
    const run = await this.read("read", await file.text());
    this.file.value = "";
    if (!run) return;
    this.keeper.add(run, JSON.stringify(run));
    this.show(run.id, run);
  }

  // A run has come; it takes the stage unless somebody is looking at another one.
  receive(run) {
    const watched = this.root.offsetParent !== null && this.shown;
    if (this.keeper.wish) this.fulfil();
    else if (!watched && !this.coming) this.show(run.id, run);
    else this.list();
  }

  // Show what "lens:step" asked for, as soon as it is there.
  fulfil() {
    const { wish } = this.keeper;
    const run = wish && this.keeper.open(wish.run);
    if (!run) return;
    this.keeper.wish = null;
    this.show(wish.run, run, wish);
  }

  // At first: what was asked for, else the newest run of this page, else the one from before the page was loaded. That
  // one is checked like any file: an earlier version may have kept it.
  async begin() {
    const { newest } = this.keeper;
    if (newest) this.show(newest.id, this.keeper.open(newest.id));
    this.fulfil();
    const text = newest ? null : recall();
    const run = text && (await this.read("read", text));
    this.news.textContent = "";
    if (run) this.keeper.add(run, text);
    this.root.dataset.ready = "true";
  }

  download() {
    const { run } = this.shown;
    offerFile(JSON.stringify(run), "application/json", `${fileName(run)}.json`);
  }

  async replay() {
    const { run } = this.shown;
    const answer = await this.ask("replay", JSON.stringify(run));
    if (answer) offerFile(answer.page, "text/html", `${fileName(run)}.html`);
  }
}

function megabytes(bytes) {
  return `${decimals(bytes / 1e6, 1)} MB`;
}

// `run` is a document, or what the keeper says of one.
function nameOf(run) {
  const words = run.title || run.question.prompt.trim().replace(/\s+/g, " ");
  const time = new Date(run.date).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return `${time} · ${words.length > 60 ? `${words.slice(0, 59)}…` : words}`;
}

function fileName(run) {
  return `mars-lens-${run.date.slice(0, 10).replace(/[^0-9-]/g, "")}-${run.id.slice(0, 8)}`;
}
