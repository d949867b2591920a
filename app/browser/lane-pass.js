// One forward pass of a lane: a group of the tokens that it accepted, and behind that the proposals that it rejected.

// `facts` gets what each token and ghost stands for: {lane, message, place in the window}.
function passGroup(lane, message, facts) {
  const group = make("span", `lens-pass depth-${depthOf(message.tokens.length)}`);
  group.dataset.pass = message.number;
  group.dataset.threshold = message.threshold === null ? "none" : String(message.threshold);
  message.tokens.forEach(([piece, score, , ends, kind], place) => {
    const node = tokenNode(piece, { kind, sure: sureness(score, lane.score), first: place === 0, ends });
    node.tabIndex = -1;
    node.dataset.index = message.start + place;
    facts.set(node, { lane, message, place });
    group.append(node);
  });
  return group;
}

function ghostRow(lane, message, facts) {
  const row = make("span", "lens-ghosts");
  row.setAttribute("aria-hidden", "true");
  const wrong = message.refused === "threshold" || message.refused === "draft"; // else they were not needed, or wait
  message.ghosts.forEach(([piece, score], place) => {
    const node = ghostNode(piece, { sure: sureness(score, lane.score), refused: wrong && place === 0 });
    node.tabIndex = -1;
    node.setAttribute("role", "img");
    node.setAttribute("aria-label", `Not accepted: ${visiblePiece(piece)}`);
    facts.set(node, { lane, message, place: message.tokens.length + place });
    row.append(node);
  });
  return row;
}
