// A card beside a token or a proposal that explains it; one at a time.

import { button, make, put } from "./dom.js";
import { isSurerWhenLower } from "./decoders.js";
import { cut, thresholdName } from "./tokens.js";

const GAP = 8; // pixels

export class Card {
  constructor(host, className) {
    this.host = host;
    this.root = make("div", className, "", { role: "group", id: className });
    this.root.hidden = true;
    host.append(this.root);
    Object.assign(this, { node: null, pinned: false });
  }

  // `focus` is the part of `node` that a reader can reach; it is described by the card.
  open(node, focus, ...parts) {
    this.close();
    Object.assign(this, { node, focus });
    node.classList.add("chosen");
    focus.setAttribute("aria-describedby", this.root.id);
    this.root.replaceChildren(...parts);
    this.root.hidden = false;
    this.place(node.getClientRects()[0] ?? node.getBoundingClientRect());
  }

  // Somebody points at this node, or at none. A card opened by a tap or by the keyboard stays until another takes its
  // place; one opened by hovering goes.
  point(node, stays, show, leave = () => this.close()) {
    const { pinned } = this;
    if (node && (stays || node !== this.node)) show();
    if (node) this.pinned = stays || pinned; // which to show another has reset
    else if (stays || !pinned) leave();
  }

  close() {
    this.pinned = false;
    if (!this.node) return;
    this.node.classList.remove("chosen");
    this.focus.removeAttribute("aria-describedby");
    this.node = null;
    this.root.hidden = true;
  }

  // Below the node, above it where there is no room, and in a small window beside it.
  place(spot) {
    const frame = this.host.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.root;
    const [above, below] = [spot.top - height - GAP, spot.bottom + GAP];
    const fits = below + height <= window.innerHeight;
    const beside = !fits && above < 0;
    const right = spot.right + GAP + width <= frame.right;
    const left = !beside ? spot.left - GAP : right ? spot.right + GAP : spot.left - width - GAP;
    const top = beside ? Math.max(0, window.innerHeight - height - GAP) : fits ? below : above;
    this.root.style.left = `${Math.min(Math.max(0, left - frame.left), Math.max(0, frame.width - width))}px`;
    this.root.style.top = `${top - frame.top}px`;
  }
}

// What a proposal has of the score of this name, and the threshold in force, if any.
export function scoreWords(name, score, threshold) {
  const words = name === "probability" ? "Score" : `${name[0].toUpperCase()}${name.slice(1)}`;
  const beside = threshold === null ? "" : ` · ${thresholdName(threshold)}`;
  return `${words} ${cut(score, 4, name)}${isSurerWhenLower(name) ? " nats" : ""}${beside}`;
}

// The most probable tokens: [word, probability, whether it was the one, what a press on it does], or nothing.
export function alternativeList(found) {
  if (!found.length) return "";
  const list = make("ol", "lens-alternatives", "", { "aria-label": "Most probable tokens" });
  return put(list, ...found.map((each) => alternative(...each)));
}

// A bar as long as the probability; a button where a press does something.
function alternative(word, probability, said, act = null) {
  const node = make("li", said ? "said" : "", "", { style: `--share: ${100 * Math.min(1, probability)}%` });
  const share = probability >= 0.001 ? cut(probability, 3) : "< 0.001";
  const name = act ? button("lens-alternative", word, act) : make("span", "lens-alternative", word);
  return put(node, name, make("span", "lens-chance", share));
}
