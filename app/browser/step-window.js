// One pass as what the model saw and said: for each position of the window what it read, what it said, and how sure.

const READ = { real: "prompt", draft: "draft", mask: "mask", noise: "random", none: "no draft" };
const SIGNS = { gained: "+", lost: "−", accepted: "✓", refused: "×", behind: "·", waits: "→" };

class WindowView {
  // `onPick` hears which column the person points at or walks to, null when none.
  constructor(onPick) {
    this.root = make("div", "step-window");
    this.root.setAttribute("role", "list");
    this.root.setAttribute("aria-label", "Positions of this pass");
    for (const name of ["mouseover", "focusin", "click"]) {
      this.root.addEventListener(name, (event) => onPick(event.target.closest(".step-column"), name !== "mouseover"));
    }
    for (const name of ["mouseleave", "focusout"]) this.root.addEventListener(name, () => onPick(null, false));
  }

  // `what` is the threshold to try and what it would have accepted, null to show what happened.
  show(lane, pass, shape, what) {
    const focused = this.root.contains(document.activeElement) ? document.activeElement.closest(".step-column") : null;
    Object.assign(this, { lane, pass, shape, what });
    const root = shape.columns.findIndex((column) => column.proposal === 0);
    const shown = root < 0 ? [] : this.path(root);
    this.root.style.setProperty("--columns", shown.length);
    this.root.replaceChildren(this.context(root), ...shown.map((column) => this.column(column)));
    this.root.hidden = !shown.length;
    if (focused) this.root.querySelector(`[data-place="${focused.dataset.place}"] button`)?.focus();
  }

  // From the root on what something was read off, and the first draft that nothing was. The others go without saying:
  // drafts behind it, and groups of masks behind other drafts than the last right one.
  path(root) {
    const columns = this.shape.columns.map((column, index) => ({ ...column, index })).slice(root);
    const unread = columns.filter(({ group, proposal }) => group < 0 && proposal === null);
    return columns.filter((column) => column.proposal !== null || column === unread[0]).map((column, place, shown) => ({
      ...column,
      missed: column === unread[0] ? unread.length : 0,
      parted: place > 0 && column.group >= 0 && shown[place - 1].group < 0,
    }));
  }

  // What stands before the window: cached tokens, those read again, and the end of the text.
  context(again) {
    const node = make("div", "step-context");
    node.setAttribute("role", "listitem");
    const count = make("span", "step-before", `${this.shape.prefix} cached${again > 0 ? ` + ${again} new` : ""}`);
    const written = this.lane.lane.written.slice(0, Math.max(0, this.pass.from - 1)).join("").slice(-30);
    const tail = make("span", "step-tail");
    tail.append(make("span", "", written ? `…${written.replaceAll("\n", "↵")}` : "the prompt"));
    put(node, this.axis(), make("span", "step-label", "model says"));
    return put(node, put(make("span", "step-past"), count, tail));
  }

  // The name of the score, and τ at its height.
  axis() {
    const { threshold } = this.pass.row;
    const node = put(make("span", "step-axis"), make("span", "", this.lane.lane.settings.score));
    if (threshold !== null && this.pass.counted) {
      node.style.setProperty("--tau", String(Math.min(1, threshold / this.lane.top)));
      node.append(make("b", "step-tau-name", thresholdName(threshold)));
    }
    return node;
  }

  column(column) {
    const place = column.proposal;
    const proposal = place === null ? null : this.pass.row.proposals[place];
    const fate = proposal ? this.fate(place) : "silent";
    const node = make("div", `step-column ${fate}${column.parted ? " parted" : ""}`);
    if (proposal && place < this.pass.row.accepted) node.classList.add("kept");
    if (this.what && proposal && place < this.what.accepted) node.classList.add("would");
    node.setAttribute("role", "listitem");
    node.dataset.column = column.index;
    if (proposal) node.dataset.place = place;
    const said = proposal ? this.said(proposal, place, fate) : this.missed(column);
    put(node, this.score(proposal, place), said, this.read(column));
    return put(node, make("span", "step-place", column.depth === 0 ? "last" : `+${column.depth}`));
  }

  // What became of a proposal, or would have become of it.
  fate(place) {
    const { accepted } = this.pass.row;
    if (this.lane.waits(this.pass, place)) return "waits";
    if (this.pass.record.phase === "denoise" && !accepted) return "behind";
    if (this.what && place < this.what.accepted && place >= accepted) return "gained";
    if (this.what && place >= this.what.accepted && place < accepted) return "lost";
    return place < accepted ? "accepted" : place === accepted ? "refused" : "behind";
  }

  score(proposal, place) {
    const node = make("span", "step-score");
    if (!proposal) return node;
    const line = (name, value) => {
      node.style.setProperty(`--${name}`, String(Math.min(1, Math.max(0, value / this.lane.top))));
      node.append(make("i", `step-${name}`));
    };
    line("bar", proposal.score);
    if (this.pass.row.threshold !== null) line("tau", this.pass.row.threshold);
    if (place > 0 && this.what) line("trial", this.what.threshold);
    return put(node, make("span", "step-value", cut(proposal.score, 3)));
  }

  said(proposal, place, fate) {
    const node = make("button", "step-said");
    node.type = "button";
    if (this.lane.ends(proposal.token_id)) node.classList.add("ends");
    node.setAttribute("aria-label", this.lane.describe(this.pass, place));
    return put(node, make("span", "step-sign", SIGNS[fate]), make("span", "step-word", this.lane.label(proposal.token_id)));
  }

  missed({ missed, kind }) {
    if (kind === "none") return make("span", "step-said", "no drafts yet");
    const what = kind === "mask" ? "mask" : "draft";
    return make("span", "step-said", missed > 1 ? `${missed} ${what}s not used` : `${what} not used`);
  }

  read(column) {
    const node = make("span", `step-read ${column.kind}`);
    const known = column.token !== null;
    const before = this.shape.columns[column.index - 1]?.proposal ?? null;
    if (column.kind === "draft" && known && before !== null && this.pass.record.phase === "verify") {
      const right = this.pass.row.proposals[before].token_id === column.token;
      node.append(make("span", "step-sign", right ? "=" : "≠"));
      node.title = right ? "The draft is what the model says here." : "The model says something else here.";
    }
    const word = make("span", known ? "step-word" : "step-word step-origin", known ? this.lane.label(column.token) : READ[column.kind]);
    return put(node, word);
  }
}
