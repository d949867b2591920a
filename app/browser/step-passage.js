// The text of the lane as groups, one a pass: what is written so far, the pass in view, and what is still to come.

class PassageView {
  constructor(onPass) {
    this.root = make("div", "step-passage");
    this.root.tabIndex = 0; // it scrolls
    this.root.setAttribute("role", "group");
    this.root.setAttribute("aria-label", "The text, pass by pass");
    this.root.addEventListener("click", (event) => {
      const group = event.target.closest("[data-index]");
      if (group) onPass(Number(group.dataset.index));
    });
  }

  open(lane) {
    this.groups = new Map();
    this.current = null;
    this.root.replaceChildren();
    for (const pass of lane.passes.filter(({ counted }) => counted)) {
      const group = make("span", `lens-pass depth-${depthOf(pass.row.accepted)} ahead`);
      group.dataset.index = pass.index;
      group.title = lane.name(pass);
      pass.row.proposals.slice(0, pass.row.accepted).forEach((proposal, place) => {
        const piece = lane.lane.written[pass.from + place];
        const sure = sureness(proposal.score, lane.lane.settings.score);
        const kind = this.kind(lane, proposal.source);
        const token = tokenNode(piece, { kind, sure, first: place === 0, ends: lane.ends(proposal.token_id) });
        group.append(token);
      });
      this.groups.set(pass.index, group);
      this.root.append(group);
    }
  }

  // Block diffusion calls what earlier passes filled drafts, but all of it was read from masks.
  kind(lane, source) {
    if (source === "draft" && lane.lane.decoder === "block_diffusion") return "mask";
    return source === "random" ? "draft" : source;
  }

  show(index) {
    for (const [place, group] of this.groups) {
      group.classList.toggle("ahead", place > index);
      group.classList.toggle("here", place === index);
    }
    const here = this.groups.get(index);
    if (!here) return;
    const { offsetTop, offsetHeight } = here;
    const seen = offsetTop >= this.root.scrollTop && offsetTop + offsetHeight <= this.root.scrollTop + this.root.clientHeight;
    if (!seen) this.root.scrollTop = offsetTop - this.root.clientHeight / 2;
  }
}
