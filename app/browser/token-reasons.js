// Why a proposal was accepted or refused, in a sentence.

const REFUSALS = {
  threshold: "Refused: its score does not reach τ.",
  draft: "Refused: it read a draft that is not what the model itself says.",
  end: "Not needed: the turn had ended before it.",
  limit: "Not needed: the length limit was reached before it.",
};

function scoreName(lane) {
  return lane.score === "probability" ? "score" : lane.score;
}

// A fact is what `passGroup` noted of a token or ghost.
function reasonOf({ lane, message, place }) {
  if (place >= message.tokens.length) return whyRefused(lane, message, place - message.tokens.length);
  const [, , , ends] = message.tokens[place];
  const end = ends ? "End of the turn. " : "";
  const last = place === message.tokens.length - 1 ? boundary(lane, message) : "";
  return end + whyAccepted(lane, message, place) + last;
}

function whyAccepted(lane, { tokens, threshold }, place) {
  const kind = tokens[place][4];
  if (kind === "clean") {
    return place === 0 ? "First proposal: the autoregressive token, always kept." : "It read real text only.";
  }
  if (kind === "draft") return "It read drafts that this pass verified: the model itself says so.";
  if (lane.decoder === "block_diffusion") return "Filled from a mask by one of the passes over its block.";
  const how = lane.score === "entropy" ? "its entropy is not above τ" : `its ${scoreName(lane)} reached τ`;
  return `Read from masks; kept because ${how}.`;
}

function whyRefused(lane, { ghosts, refused, threshold }, place) {
  const [, , source] = ghosts[place];
  if (refused === "end" || refused === "limit") return REFUSALS[refused];
  if (lane.decoder === "jacobi") return "Kept as a guess: the next pass reads it again.";
  if (lane.family === "exact" && source === "mask") return "Kept as a draft: the next pass verifies it.";
  if (lane.family === "masks" && threshold === null) return "Refused: one token per pass is in force.";
  if (place > 0) return "Behind a refused proposal: acceptance goes from left to right.";
  if (refused === "threshold" && lane.score === "entropy") return "Refused: its entropy is above τ.";
  return REFUSALS[refused] ?? "Not accepted.";
}

// What ended the pass behind its last token.
function boundary(lane, { ghosts, refused }) {
  if (!ghosts?.length || !["threshold", "draft"].includes(refused)) return "";
  const [piece, score] = ghosts[0];
  const next = `“${visiblePiece(piece)}”`;
  if (refused === "draft") return ` The pass ends here: the draft before ${next} was wrong.`;
  const sign = lane.score === "entropy" ? ">" : "<";
  return ` The pass ends here: ${next} had ${score.toFixed(4)} ${sign} τ.`;
}
