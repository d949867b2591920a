// Tokens as people see them, in Compare and in Step through: what a token was read from is the style of its underline
// (tokens.css), its score is the length of it; the more tokens a pass accepted, the deeper its colour.

const DEPTHS = [1, 2, 3, 4, 6, 9]; // the fewest tokens of each depth of colour

function depthOf(count) {
  return DEPTHS.findLastIndex((fewest) => count >= fewest) + 1;
}

// How sure a score is, from 0 to 1; an entropy is in nats, and lower is surer.
function sureness(score, name) {
  return name === "entropy" ? Math.exp(-score) : Math.min(1, Math.max(0, score));
}

// `kind`: "clean" (read real text only), "mask" or "draft". `sure` is from 0 to 1.
function tokenNode(piece, { kind, sure, first, ends }) {
  const node = make("span", `lens-token ${kind}${first ? " first" : ""}${ends ? " ends" : ""}`);
  node.style.setProperty("--sure", sure.toFixed(3));
  piece.split("\n").forEach((part, line) => {
    if (line) node.append(make("span", "lens-newline", "\n"));
    if (part) node.append(part);
  });
  return node;
}

// A proposal that was not accepted. Its text is drawn by the style sheet: it is no part of what the lane wrote, neither
// for who copies the text nor for a screen reader.
function ghostNode(piece, { sure, refused }) {
  const node = make("span", `lens-ghost${refused ? " refused" : ""}`);
  node.dataset.piece = visiblePiece(piece);
  node.style.setProperty("--sure", sure.toFixed(3));
  return node;
}

// A piece as a word on one line: nothing in it is invisible.
function visiblePiece(piece) {
  if (!piece) return "∅";
  if (!piece.trim() && !/[\n\t]/.test(piece)) return "␣".repeat(piece.length);
  return piece.replace(/^ /, "·").replaceAll("\n", "↵").replaceAll("\t", "⇥");
}
