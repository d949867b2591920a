// The card of a mark: what was measured, where it comes from, and what can be done with it.

import { announce, bringIntoView, button, make, put, status } from "../shared/dom.js";
import { verdictWords } from "../shared/tokens.js";

const RIGHTS = [["Right and wrong", null], ["Right", true], ["Wrong", false]];

export class TradeCard {
  // `ask` asks Python; `samples` shows what the run wrote.
  constructor(ask, samples) {
    this.ask = ask;
    this.samples = samples;
    const named = { tabindex: -1, "aria-label": "The run that was picked" };
    this.root = make("section", "lens-box lens-stack trade-card", "", named);
    this.root.hidden = true;
    this.root.addEventListener("keydown", (event) => event.key === "Escape" && this.onClose());
  }

  async open(id) {
    this.id = id;
    const card = await this.ask("card", { id });
    if (this.id !== id) return undefined;
    this.root.hidden = false;
    if (card.problem) return this.root.replaceChildren(this.head(card.problem, ""));
    const parts = [this.measures(card.measures), this.use(card), this.samples.open(card), this.origin(card)];
    this.root.replaceChildren(this.head(card.model, card.setting), ...parts);
    this.root.focus({ preventScroll: true });
    return bringIntoView(this.root);
  }

  // Go out of view; `onClose` hears that somebody wishes it.
  leave() {
    this.id = null;
    this.root.hidden = true;
  }

  head(title, setting) {
    const close = button("lens-tool trade-close", "×", () => this.onClose(), { "aria-label": "Close the card" });
    const words = put(make("div"), make("h3", "", title), make("p", "lens-note trade-setting", setting));
    return put(make("header", "trade-card-head"), words, close);
  }

  measures(measures) {
    const list = make("dl", "trade-measures");
    for (const { label, value, interval } of measures) {
      const said = put(make("dd"), make("b", "", value), make("span", "lens-note", interval));
      list.append(put(make("div"), make("dt", "lens-note", label), said));
    }
    return list;
  }

  use({ choice, lacking }) {
    const use = button("lens-tool primary", "Use these settings in Compare", () => announce("lens:use", { choice }));
    use.disabled = !choice;
    return put(make("div", "trade-use"), use, ...(lacking ? [make("p", "lens-note", lacking)] : []));
  }

  origin({ facts, command }) {
    const fold = put(make("details", "trade-origin"), make("summary", "", "Provenance"));
    if (command) fold.append(put(make("pre", "lens-pre trade-text"), make("code", "", command)));
    const list = make("dl", "trade-facts");
    for (const [label, value] of facts) list.append(make("dt", "lens-note", label), make("dd", "", value));
    fold.append(list);
    return fold;
  }
}

// The texts of a run: a few of its problems at a time.
export class TradeSamples {
  constructor(ask) {
    this.ask = ask;
  }

  open(card) {
    this.card = card;
    this.right = make("select", "lens-field", "", { "aria-label": "Right or wrong samples" });
    put(this.right, ...RIGHTS.map(([label], place) => new Option(label, place)));
    this.right.addEventListener("change", () => this.restart());
    this.status = status("lens-note trade-shown");
    this.more = button("lens-tool", "Show more", () => this.fetch());
    const choose = put(make("div", "lens-row"), make("h3", "", "Sample texts"), this.right);
    this.restart();
    return put(make("section", "lens-stack trade-written"), choose, this.list, this.status, this.more);
  }

  restart() {
    const list = make("ol", "trade-samples"); // another one, so that late answers are not put in
    this.list?.replaceWith(list);
    Object.assign(this, { list, shown: 0 });
    this.fetch();
  }

  async fetch() {
    const { card, list } = this;
    const [right, first] = [RIGHTS[Number(this.right.value)][1], this.shown];
    const { samples = [], total, problem } = await this.ask("samples", { id: card.id, right, first });
    if (this.list !== list || this.shown !== first) return;
    this.shown += samples.length;
    list.append(...samples.map((sample) => this.item(sample)));
    const found = total ? `${this.shown} of ${total.toLocaleString("en-US")}` : "No text matches.";
    this.status.textContent = problem ?? found;
    this.more.hidden = this.shown >= total; // an answer that did not come has no total
  }

  item({ family, number, prompt, answer, text, right, tokens, passes, cut }) {
    const facts = `${tokens} tokens in ${passes} passes${cut ? ", cut at the limit" : ""}`;
    const head = put(make("div", "lens-row"), make("b", "", `${family} ${number}`));
    if (right !== null) head.append(make("span", `lens-badge ${right ? "right" : "wrong"}`, verdictWords(right)));
    put(head, make("span", "lens-note", facts));
    const item = put(make("li", "lens-stack trade-sample"), head);
    if (prompt) item.append(make("p", "lens-pre lens-note", prompt));
    item.append(make("p", "lens-pre trade-text", text || "(no text was stored)"));
    if (!right && answer) item.append(put(make("p", "lens-note"), "Known answer: ", make("b", "", answer)));
    return item;
  }
}
