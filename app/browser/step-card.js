// The card of one proposal: what was said at this position, how sure, what else was likely, and what became of it.

class ProposalCard {
  constructor(host) {
    this.host = host;
    this.root = make("div", "step-card");
    this.root.setAttribute("role", "tooltip");
    this.root.id = `step-card-${Math.random().toString(36).slice(2)}`;
    this.root.hidden = true;
    host.append(this.root);
    this.node = null;
  }

  open(node, lane, pass) {
    this.close();
    const place = Number(node.dataset.place);
    const proposal = pass.row.proposals[place];
    this.node = node;
    node.classList.add("chosen");
    node.querySelector("button").setAttribute("aria-describedby", this.root.id);
    const of = `${lane.name(pass)} · proposal ${place + 1} of ${pass.row.proposals.length}`;
    const threshold = pass.row.threshold === null ? "" : ` · ${thresholdName(pass.row.threshold)}`;
    const score = `${lane.lane.settings.score} ${cut(proposal.score, 4)}${threshold}`;
    this.root.replaceChildren(make("p", "step-card-where", of), make("p", "step-card-score", score));
    if (proposal.alternatives.length) this.root.append(this.alternatives(lane, proposal));
    this.root.append(make("p", "step-card-reason", lane.reason(pass, place)));
    this.root.hidden = false;
    this.place(node);
  }

  alternatives(lane, proposal) {
    const list = make("ol", "step-alternatives");
    for (const [token, probability] of proposal.alternatives) {
      const item = make("li", token === proposal.token_id ? "said" : "");
      item.style.setProperty("--share", `${100 * Math.min(1, probability)}%`);
      const value = probability >= 0.001 ? cut(probability, 3) : "< 0.001";
      list.append(put(item, make("span", "step-word", lane.label(token)), make("span", "step-share", value)));
    }
    return list;
  }

  close() {
    if (!this.node) return;
    this.node.classList.remove("chosen");
    this.node.querySelector("button")?.removeAttribute("aria-describedby");
    this.node = null;
    this.root.hidden = true;
  }

  place(node) {
    const spot = node.getBoundingClientRect();
    const frame = this.host.getBoundingClientRect();
    const middle = spot.left + spot.width / 2 - frame.left - this.root.offsetWidth / 2;
    const left = Math.min(Math.max(0, middle), Math.max(0, frame.width - this.root.offsetWidth));
    const below = spot.bottom + this.root.offsetHeight + 12 < window.innerHeight;
    const top = below ? spot.bottom + 8 : spot.top - this.root.offsetHeight - 8;
    this.root.style.left = `${left}px`;
    this.root.style.top = `${top - frame.top}px`;
  }
}
