// The card that explains one token or one rejected proposal: where it stood, how sure it was, what else was likely, and
// why it was accepted or refused.

import { isSurerWhenLower } from "../shared/decoders.js";
import { announce, button, make, put, tooltip } from "../shared/dom.js";
import { sentenceOf } from "../shared/reasons.js";
import { alternativeNode, cut, sureness, thresholdName, visiblePiece } from "../shared/tokens.js";

const MOST_REJECTED = 8;

export class TokenCard {
  constructor(host) {
    this.host = host;
    this.root = tooltip("div", "lens-card");
    this.where = make("p", "lens-card-where");
    this.scale = make("div", "lens-card-scale");
    this.bar = make("div", "lens-card-bar");
    this.mark = make("div", "lens-card-mark");
    this.numbers = make("p", "lens-card-numbers");
    this.reason = make("p", "lens-card-reason");
    this.rejected = make("p", "lens-card-rejected");
    this.others = make("ol", "lens-alternatives", "", { "aria-label": "Most probable tokens" });
    // Not for the tab key: Enter on the token does the same.
    this.step = button("lens-card-step", "Step through from here ↵", () => this.stepThrough(), { tabindex: -1 });
    this.step.addEventListener("mousedown", (event) => event.preventDefault());
    put(this.scale, this.bar, this.mark);
    put(this.root, this.where, this.numbers, this.scale, this.reason, this.rejected, this.others, this.step);
    host.append(this.root);
    this.token = null;
  }

  // `fact` is what `passGroup` noted of the token.
  open(token, fact) {
    this.close();
    this.token = token;
    const { lane, message, place } = fact;
    const ghost = place >= message.tokens.length;
    const [piece, score] = ghost ? message.ghosts[place - message.tokens.length] : message.tokens[place];
    this.number = message.number;
    this.step.hidden = !this.host.matches("[data-state=done], [data-state=stopped]");
    token.classList.add("chosen");
    token.setAttribute("aria-describedby", this.root.id);
    const fate = ghost ? " · not accepted" : "";
    this.where.textContent = `Pass ${message.number} · position ${place + 1} of ${message.window}${fate}`;
    this.weigh(lane, score, message.threshold);
    this.reason.textContent = reasonOf(fact);
    this.rejected.textContent = rejectedOf(message);
    this.list(piece, ghost ? [] : (message.tokens[place][5] ?? []));
    this.root.hidden = false;
    this.place(token);
  }

  weigh(lane, score, threshold) {
    const name = scoreName(lane);
    const unit = isSurerWhenLower(lane.score) ? " nats" : "";
    this.numbers.textContent = `${name[0].toUpperCase()}${name.slice(1)} ${score.toFixed(4)}${unit} · ${thresholdName(threshold)}`;
    this.bar.style.width = `${100 * sureness(score, lane.score)}%`;
    this.mark.hidden = threshold === null;
    this.mark.style.left = `${100 * (threshold === null ? 0 : sureness(threshold, lane.score))}%`;
  }

  list(said, alternatives) {
    this.others.hidden = alternatives.length === 0;
    const nodes = alternatives.map(([piece, probability]) => alternativeNode(visiblePiece(piece), probability, piece === said));
    this.others.replaceChildren(...nodes);
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
    const { lane } = this.token.closest("[data-lane]").dataset;
    announce("lens:step", { run: this.host.dataset.run, lane, number: this.number });
  }

  place(token) {
    const spot = token.getClientRects()[0] ?? token.getBoundingClientRect();
    const frame = this.host.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.root;
    const above = spot.top - height - 10;
    const below = spot.bottom + 10;
    const beside = above <= 0 && below + height > window.innerHeight; // a small window
    const right = spot.right + 10 + width <= frame.right;
    const from = !beside ? spot.left - 12 : right ? spot.right + 10 : spot.left - width - 10;
    const top = beside ? Math.max(0, window.innerHeight - height - 8) : above > 0 ? above : below;
    this.root.style.left = `${Math.min(Math.max(0, from - frame.left), Math.max(0, frame.width - width))}px`;
    this.root.style.top = `${top - frame.top}px`;
  }
}

function scoreName(lane) {
  return lane.score === "probability" ? "score" : lane.score;
}

// Why a proposal was accepted or refused, in a sentence. A fact is what `passGroup` noted of a token or ghost.
export function reasonOf({ lane, message, place }) {
  const { tokens, reasons, threshold, phase } = message;
  const accepted = place < tokens.length;
  const end = accepted && tokens[place][3] ? "End of the turn. " : "";
  const last = place === tokens.length - 1 ? boundary(lane, message) : "";
  const about = { score: lane.score, threshold, accepted, fills: phase === "denoise" };
  return end + sentenceOf(reasons[place], about) + last;
}

// The proposals that this pass did not accept, with their scores.
function rejectedOf({ ghosts = [] }) {
  const named = ghosts.slice(0, MOST_REJECTED).map(([piece, score]) => `“${visiblePiece(piece)}” ${cut(score, 2)}`);
  const more = ghosts.length - named.length;
  return named.length ? `Not accepted: ${named.join(", ")}${more > 0 ? ` and ${more} more` : ""}.` : "";
}

// The reason why the pass ended behind its last token.
function boundary(lane, { tokens, ghosts, reasons }) {
  const reason = reasons[tokens.length];
  if (reason !== "below" && reason !== "wrong draft") return "";
  const [piece, score] = ghosts[0];
  const next = `“${visiblePiece(piece)}”`;
  if (reason === "wrong draft") return ` The pass ends here: the draft before ${next} was wrong.`;
  const sign = isSurerWhenLower(lane.score) ? ">" : "<";
  return ` The pass ends here: ${next} had ${score.toFixed(4)} ${sign} τ.`;
}
