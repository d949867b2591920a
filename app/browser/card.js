// The card that explains one token: opened by hovering, tapping, or walking through the text with the arrow keys.

class TokenCard {
  constructor(host) {
    this.host = host;
    this.root = make("div", "lens-card");
    this.root.setAttribute("role", "tooltip");
    this.root.id = `lens-card-${Math.random().toString(36).slice(2)}`;
    this.where = make("p", "lens-card-where");
    this.scale = make("div", "lens-card-scale");
    this.bar = make("div", "lens-card-bar");
    this.mark = make("div", "lens-card-mark");
    this.numbers = make("p", "lens-card-numbers");
    this.reason = make("p", "lens-card-reason");
    this.step = make("button", "lens-card-step", "Step through from here ↵");
    this.step.type = "button";
    this.step.tabIndex = -1; // Enter on the token does the same
    this.step.addEventListener("mousedown", (event) => event.preventDefault());
    this.step.addEventListener("click", () => this.stepThrough());
    put(this.scale, this.bar, this.mark);
    put(this.root, this.where, this.numbers, this.scale, this.reason, this.step);
    this.root.hidden = true;
    host.append(this.root);
    this.token = null;
  }

  open(token, facts) {
    this.close();
    this.token = token;
    this.number = facts.pass;
    this.step.hidden = !this.host.matches("[data-state=done], [data-state=stopped]");
    token.classList.add("chosen");
    token.setAttribute("aria-describedby", this.root.id);
    this.where.textContent = `Pass ${facts.pass} · position ${facts.position} of ${facts.window}`;
    this.numbers.textContent = `Score ${facts.score.toFixed(4)} · ${thresholdName(facts.threshold)}`;
    this.bar.style.width = `${100 * Math.min(1, Math.max(0, facts.score))}%`;
    this.mark.hidden = facts.threshold === null;
    this.mark.style.left = `${100 * (facts.threshold ?? 0)}%`;
    this.reason.textContent = TokenCard.reason(facts);
    this.root.hidden = false;
    this.place(token);
  }

  close() {
    if (!this.token) return;
    this.token.classList.remove("chosen");
    this.token.removeAttribute("aria-describedby");
    this.token = null;
    this.root.hidden = true;
  }

  stepThrough() {
    if (!this.token || this.step.hidden) return;
    const lane = this.token.closest("[data-lane]").dataset.lane;
    const detail = { run: this.host.dataset.run, lane, number: this.number };
    document.dispatchEvent(new CustomEvent("lens:step", { detail }));
  }

  place(token) {
    const spot = token.getClientRects()[0] ?? token.getBoundingClientRect();
    const frame = this.host.getBoundingClientRect();
    const width = this.root.offsetWidth;
    const left = Math.min(Math.max(0, spot.left - frame.left - 12), Math.max(0, frame.width - width));
    const above = spot.top - this.root.offsetHeight - 10;
    const top = above > 0 ? above : spot.bottom + 10;
    this.root.style.left = `${left}px`;
    this.root.style.top = `${top - frame.top}px`;
  }

  static reason(facts) {
    const end = facts.ends ? "End of the turn. " : "";
    if (facts.position === 1) return `${end}First proposal: the autoregressive token, always kept.`;
    if (facts.source === "mask") return `${end}Read from masks; kept because its score reached τ.`;
    return `${end}Kept by the decoder.`;
  }
}
