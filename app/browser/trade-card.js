// The card of a mark: what was measured, where it comes from, and what can be done with it.

class TradeCard {
  // `ask` asks Python; `samples` shows what the run wrote.
  constructor(ask, samples) {
    this.ask = ask;
    this.samples = samples;
    this.root = make("section", "trade-card");
    this.root.hidden = true;
    this.root.tabIndex = -1;
    this.root.setAttribute("aria-label", "The run that was picked");
    this.root.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
  }

  async open(id, { quiet = false } = {}) {
    this.id = id;
    const card = await this.ask("card", { id });
    if (this.id !== id) return false;
    if (card.problem) {
      this.root.replaceChildren(this.head(card.problem, ""));
      this.root.hidden = false;
      return false;
    }
    this.draw(card);
    this.root.hidden = false;
    if (!quiet) {
      this.root.focus({ preventScroll: true });
      const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      this.root.scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
    }
    return true;
  }

  close() {
    this.id = null;
    this.root.hidden = true;
    this.onClose?.();
  }

  draw(card) {
    const parts = [this.head(card.model, card.setting), this.measures(card.measures)];
    if (card.note) parts.push(make("p", "trade-note", card.note));
    parts.push(this.use(card));
    if (!card.published) parts.push(this.samples.open(card));
    parts.push(this.origin(card));
    this.root.replaceChildren(...parts);
  }

  head(title, setting) {
    const close = make("button", "trade-close", "×");
    close.type = "button";
    close.setAttribute("aria-label", "Close the card");
    close.addEventListener("click", () => this.close());
    const words = put(make("div"), make("h3", "", title), make("p", "trade-setting", setting));
    return put(make("header", "trade-card-head"), words, close);
  }

  measures(measures) {
    const list = make("dl", "trade-measures");
    for (const { label, value, interval } of measures) {
      const value2 = put(make("dd"), make("b", "", value));
      if (interval) value2.append(make("span", "trade-small", interval));
      list.append(put(make("div"), make("dt", "", label), value2));
    }
    return list;
  }

  use({ choice, lacking }) {
    const row = make("div", "trade-use");
    const button = make("button", "trade-button primary", "Use these settings in Compare");
    button.type = "button";
    button.disabled = !choice;
    button.addEventListener("click", () => {
      document.dispatchEvent(new CustomEvent("lens:use", { detail: { choice } }));
    });
    row.append(button);
    if (lacking) row.append(make("p", "trade-small", lacking));
    return row;
  }

  origin({ facts, command }) {
    const fold = put(make("details", "trade-origin"), make("summary", "", "Where it comes from"));
    if (command) fold.append(put(make("pre", "trade-command"), make("code", "", command)));
    const list = make("dl", "trade-facts");
    for (const [label, value] of facts) list.append(make("dt", "", label), make("dd", "", value));
    fold.append(list);
    fold.open = matchMedia("(min-width: 1100px)").matches;
    return fold;
  }
}
