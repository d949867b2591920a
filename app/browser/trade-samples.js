// What a run wrote: a few of its problems at a time, each of which can be written once more and stepped through.

const RIGHTS = [
  ["Right and wrong", null],
  ["Right", true],
  ["Wrong", false],
];

class TradeSamples {
  // `keeper` holds the runs of this page, for the Step through tab.
  constructor(ask, keeper) {
    Object.assign(this, { ask, keeper });
  }

  open(card) {
    this.card = card;
    this.task = make("select", "trade-select");
    put(this.task, new Option("All families", ""), ...card.tasks.map(({ value, label }) => new Option(label, value)));
    this.task.setAttribute("aria-label", "Family of the samples");
    this.right = make("select", "trade-select");
    put(this.right, ...RIGHTS.map(([label], place) => new Option(label, place)));
    this.right.setAttribute("aria-label", "Right or wrong samples");
    for (const select of [this.task, this.right]) select.addEventListener("change", () => this.restart());
    this.list = make("ol", "trade-samples");
    this.news = make("p", "trade-small trade-shown");
    this.news.setAttribute("role", "status");
    this.more = make("button", "trade-button", "Show more");
    this.more.type = "button";
    this.more.addEventListener("click", () => this.fetch());
    const choose = put(make("div", "trade-row"), make("h3", "", "What it wrote"), this.task, this.right);
    const root = put(make("section", "trade-written"), choose);
    if (card.again) root.append(make("p", "trade-small", `These texts cannot be stepped through. ${card.again}`));
    put(root, this.list, this.news, this.more);
    this.restart();
    return root;
  }

  restart() {
    this.shown = 0;
    this.list.replaceChildren();
    this.fetch();
  }

  async fetch() {
    const { card, list } = this;
    const [task, right, first] = [this.task.value, RIGHTS[Number(this.right.value)][1], this.shown];
    const { samples = [], total = 0, problem } = await this.ask("samples", { id: card.id, task, right, first });
    if (this.list !== list || this.shown !== first) return;
    this.shown += samples.length;
    list.append(...samples.map((sample) => this.item(sample)));
    this.news.textContent = problem ?? (total ? `${this.shown} of ${total.toLocaleString("en-US")}` : "There are none.");
    this.more.hidden = this.shown >= total;
  }

  item(sample) {
    const { family, prompt, answer, text, right, tokens, passes, cut } = sample;
    const badge = make("span", `lens-badge ${right ? "right" : "wrong"}`, right ? "✓ right" : "× wrong");
    const facts = `${tokens} tokens in ${passes} passes${cut ? ", cut at the limit" : ""}`;
    const head = put(make("div", "trade-row"), make("b", "", `${family} ${sample.number}`), badge);
    put(head, make("span", "trade-small", facts));
    const item = put(make("li", "trade-sample"), head);
    if (prompt) item.append(make("p", "trade-prompt", prompt));
    item.append(make("p", "trade-text", text || "(no text was stored)"));
    if (!right && answer) item.append(put(make("p", "trade-small"), "Known answer: ", make("b", "", answer)));
    if (!this.card.again) item.append(this.again(sample));
    return item;
  }

  again({ task, number }) {
    const button = make("button", "trade-button", "Step through");
    button.type = "button";
    const news = make("span", "trade-small");
    news.setAttribute("role", "status");
    button.addEventListener("click", async () => {
      button.disabled = true;
      news.textContent = "Writing it once more …";
      const say = (words) => (news.textContent = words);
      const { run, problem } = await this.ask("again", { id: this.card.id, task, number }, say);
      button.disabled = false;
      news.textContent = problem ?? "";
      if (run) this.step(run);
    });
    return put(make("div", "trade-row"), button, news);
  }

  step(text) {
    const run = JSON.parse(text);
    this.keeper.add(run, text);
    document.dispatchEvent(new CustomEvent("lens:step", { detail: { run: run.id, lane: run.lanes[0].key } }));
  }
}
