// Steps through one run: its question, a lane, the text, and one pass at a time. Needs no server and no model.

import { Card } from "../shared/card.js";
import { decoderOf } from "../shared/decoders.js";
import { button, make, put, status } from "../shared/dom.js";
import { decimals, givenNode, letterWords, plural, proposedBy, thresholdName, verdictWords } from "../shared/tokens.js";
import { columnsOf, SteppedLane } from "./lane.js";
import { explain, MatrixView, TreeView, WindowView } from "./pass.js";
import { Player } from "./player.js";
import { WhatIf } from "./what-if.js";

const ROOMY = 9; // proposals of a pass for which there is room beside the matrix

export class StepView {
  constructor(root) {
    this.root = root;
    this.question = make("details", "step-asked");
    this.lanes = make("div", "lens-row", "", { role: "group", "aria-label": "Lane" });
    this.passage = new PassageView((index) => this.player.go(index));
    this.player = new Player((index) => this.show(index));
    this.title = make("h2", "step-title");
    this.facts = make("p", "step-facts lens-note");
    this.status = status("step-status");
    this.window = new WindowView((node, stays) => this.pick(node, stays));
    this.matrix = new MatrixView();
    this.tree = new TreeView();
    this.whatIf = new WhatIf((threshold) => {
      this.player.draw(threshold);
      this.draw();
    });
    const head = put(make("div", "lens-row step-head"), this.title, this.facts);
    const left = put(make("div", "lens-stack"), head, this.window.root, this.tree.root, this.whatIf.root);
    const stage = put(make("div", "step-stage"), left, this.matrix.root);
    this.panel = put(make("section", "step-panel"), this.passage.root, this.passage.signs, this.player.root, stage);
    this.note = make("p");
    put(root, this.note, this.question, this.lanes, this.panel, this.status);
    this.card = new Card(root, "step-card");
    document.addEventListener("keydown", (event) => this.key(event));
  }

  open(run, { lane = null, number = null } = {}) {
    this.run = run;
    this.note.textContent = run.note ?? "";
    this.lanes.replaceChildren(...run.lanes.map((each) => this.tab(each)));
    this.choose(lane ?? usualLane(run).key, number);
  }

  tab(lane) {
    const { family, title = lane.decoder } = decoderOf(lane.decoder);
    const choose = () => this.choose(lane.key);
    const node = button(`lens-tool step-lane lens-lane-${family}`, "", choose, { "data-lane": lane.key });
    const verdict = verdictWords(lane.right);
    put(node, make("b", "", lane.title), make("span", "lens-note", `${lane.checkpoint} · ${title}`));
    if (verdict) node.append(make("span", `lens-badge ${lane.right ? "right" : "wrong"}`, verdict));
    return node;
  }

  choose(key, number = null) {
    const found = this.run.lanes.find((each) => each.key === key) ?? this.run.lanes[0];
    this.lane = new SteppedLane(found);
    this.ask(found);
    for (const node of this.lanes.children) node.setAttribute("aria-pressed", String(node.dataset.lane === found.key));
    const wide = found.records.some((record) => record.rows[0].proposals.length > ROOMY);
    this.panel.className = `step-panel lens-box lens-lane-${this.lane.family}${wide ? " wide" : ""}`;
    this.passage.open(this.lane, this.run.question.answer_prefix);
    const begin = this.lane.passes.findIndex((pass) => pass.number === (number ?? 1));
    this.player.open(this.lane, Math.max(0, begin));
    this.whatIf.open(this.lane);
  }

  // The question, behind the turns of this lane that it follows up.
  ask({ earlier = [] }) {
    const { prompt } = this.run.question;
    const turns = earlier.flatMap((turn) => [
      make("p", "lens-pre", turn.prompt),
      make("p", "lens-pre lens-note", turn.answer),
    ]);
    const words = `${turns.length ? `Question ${earlier.length + 1}: ` : ""}${prompt.trim().split("\n")[0]}`;
    this.question.replaceChildren(make("summary", "", words), ...turns, make("p", "lens-pre", prompt));
  }

  show(index) {
    this.pass = this.lane.passes[index];
    this.shape = columnsOf(this.pass.row);
    const { record, row } = this.pass;
    const facts = [
      `${record.query_tokens.toLocaleString("en-US")} ${record.query_tokens === 1 ? "position" : "positions"} computed`,
      this.shape.masks ? plural(this.shape.masks, "mask") : "",
      `${decimals(1000 * record.seconds, 1)} ms`,
      row.threshold === null ? "" : thresholdName(row.threshold),
    ];
    const outcome = this.lane.outcome(this.pass, this.shape);
    this.title.replaceChildren(make("b", "", this.pass.name), make("span", "", outcome));
    this.facts.textContent = facts.filter(Boolean).join(" · ");
    this.card.close();
    this.passage.show(index);
    this.draw();
    this.matrix.show(this.shape);
    this.tree.show(this.lane, this.shape);
    if (!this.player.playing) this.status.textContent = `${this.pass.name}: ${outcome}`;
    this.root.dispatchEvent(new Event("step:moved"));
  }

  draw() {
    const { threshold } = this.whatIf;
    const tried = threshold !== null && this.pass.counted && this.pass.row.threshold !== null;
    const accepted = tried ? this.lane.wouldAccept(this.pass.index, threshold) : 0;
    this.window.show(this.lane, this.pass, this.shape, tried ? { threshold, accepted } : null);
  }

  pick(node, stays) {
    this.matrix.mark(node ? Number(node.dataset.column) : null);
    this.card.point(node?.dataset.place && node, stays, () => explain(this.card, node, this.lane, this.pass));
  }

  // The keys work wherever the focus is, as long as the view is on screen and nothing else is meant.
  key(event) {
    const shown = this.run && this.root.offsetParent !== null;
    if (!shown || (event.target !== document.body && !this.root.contains(event.target))) return;
    if (event.key === "Escape") this.card.close();
    else this.player.key(event);
  }
}

// Without a wish, the lane with most to see: the last one that accepts several tokens a pass.
export function usualLane(run) {
  return run.lanes.findLast((each) => each.records.some((record) => record.rows[0].accepted > 1)) ?? run.lanes[0];
}

// The text of the lane as groups, one a pass: what is written so far, the pass in view, and what is still to come.
class PassageView {
  constructor(onPass) {
    const scrolls = { tabindex: 0, role: "group", "aria-label": "The text, pass by pass" };
    this.root = make("div", "lens-pre step-passage", "", scrolls);
    this.signs = make("p", "step-signs lens-note"); // what the letters in the bands mean
    this.root.addEventListener("click", (event) => {
      const group = event.target.closest("[data-index]");
      if (group) onPass(Number(group.dataset.index));
    });
  }

  open(lane, start = "") {
    this.groups = new Map();
    this.root.replaceChildren(...(start ? [givenNode(start)] : []));
    const letters = {};
    for (const pass of lane.writing) {
      const { accepted, proposals } = pass.row;
      const proposed = proposedBy(proposals.slice(0, accepted).map(({ source }) => source), lane.lane.decoder);
      const group = lane.band(pass, proposed);
      Object.assign(letters, proposed);
      group.classList.add("ahead");
      group.dataset.index = pass.index;
      group.title = pass.name;
      this.groups.set(pass.index, group);
      this.root.append(group);
    }
    this.signs.textContent = letterWords(letters);
  }

  show(index) {
    for (const [place, group] of this.groups) {
      group.classList.toggle("ahead", place > index);
      group.classList.toggle("here", place === index);
    }
    const here = this.groups.get(index);
    if (!here) return;
    const { offsetTop, offsetHeight } = here;
    const { scrollTop, clientHeight } = this.root;
    const seen = offsetTop >= scrollTop && offsetTop + offsetHeight <= scrollTop + clientHeight;
    if (!seen) this.root.scrollTop = offsetTop - this.root.clientHeight / 2;
  }
}
