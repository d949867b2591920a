// The card that explains one token or one rejected proposal: where it stood, how sure it was, what else was likely, and
// why it was accepted or refused.

import { alternativeList, Card, scoreWords } from "../shared/card.js";
import { announce, button, make } from "../shared/dom.js";
import { mayStart } from "../shared/feed.js";
import { noMask, sentenceOf } from "../shared/reasons.js";
import { visiblePiece } from "../shared/tokens.js";

const UNABLE = "The prompt or a setting has changed: after another run, all lanes can go on from another token.";
const CONTROL = /^<[^ ]+>$/; // as a text it would be no control token

export class TokenCard extends Card {
  // `onBranch` hears what stands instead of the token of a fact.
  constructor(host, onBranch) {
    super(host, "lens-card");
    this.branch = (text) => this.node && onBranch(this.fact, text);
    // Not for the tab key: Enter on the token does the same.
    const step = () => this.stepThrough();
    this.step = button("lens-tool lens-card-step", "Step through from here ↵", step, { tabindex: -1 });
    this.step.addEventListener("mousedown", (event) => event.preventDefault());
  }

  // `fact` is what the lane noted of the token.
  show(token, fact) {
    const { lane, message, place } = fact;
    const ghost = place >= message.tokens.length;
    const [piece, score] = ghost ? message.ghosts[place - message.tokens.length] : message.tokens[place];
    const where = `Pass ${message.number} · proposal ${place + 1} of ${message.window}`;
    const others = ghost ? [] : (message.tokens[place][5] ?? []);
    this.fact = fact;
    this.step.hidden = !this.host.matches("[data-state=done], [data-state=stopped]");
    this.open(
      token,
      token,
      make("p", "lens-card-where", `${where}${ghost ? " · not accepted" : ""}`),
      make("p", "", scoreWords(lane.score, score, message.threshold)),
      make("p", "lens-card-reason", reasonOf(fact)),
      ...this.others(ghost ? null : lane, others, piece),
      this.step,
    );
  }

  // The other likely tokens here. Where the prompt can be run again, each of them, or a text of one's own, does that.
  others(lane, found, piece) {
    const free = lane && !this.step.hidden && !lane.earlier.length && mayStart();
    const able = free && !this.host.querySelector(".lens-answers").textContent;
    const listed = found.map(([other, probability]) => {
      const said = other === piece;
      const act = able && !said && !CONTROL.test(other) ? () => this.branch(other) : null;
      return [visiblePiece(other), probability, said, act];
    });
    if (!able) return [alternativeList(listed), free ? make("p", "", UNABLE) : ""];
    const named = { placeholder: "another text", "aria-label": "Another text from here on" };
    const own = make("input", "lens-field lens-card-own", "", named);
    const done = ({ key, isComposing }) => key === "Enter" && !isComposing && own.value;
    own.addEventListener("keydown", (event) => done(event) && this.branch(own.value));
    const hint = make("p", "", "Choose another token, or write a text: all lanes go on from it.");
    return [alternativeList(listed), hint, own];
  }

  stepThrough() {
    if (!this.node || this.step.hidden) return;
    announce("lens:step", { run: this.host.dataset.run, lane: this.fact.lane.key, number: this.fact.message.number });
  }
}

export function reasonOf({ lane, message, place }) {
  const { tokens, ghosts, reasons, threshold } = message;
  const accepted = place < tokens.length;
  const [, , source, ends] = (accepted ? tokens[place] : ghosts[place - tokens.length]) ?? [];
  const none = noMask(lane.settings, threshold, message.window);
  return sentenceOf(reasons[place], { score: lane.score, threshold, accepted, source, ends: accepted && ends, none });
}
