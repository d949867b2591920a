// From now on each of these passes shows the proposal at which it ended: a portion at a time, over all lanes, because the
// whole text is laid out anew with each.
const KEPT_AT_ONCE = 60;
const KEEPING_GAP = 40; // milliseconds
const toKeep = [];
let keeping = false;

function keepGhosts(rows) {
  toKeep.push(...rows);
  if (!keeping && toKeep.length) keepSome();
}

function keepSome() {
  for (const row of toKeep.splice(0, KEPT_AT_ONCE)) row.classList.add("kept");
  keeping = true;
  setTimeout(() => {
    keeping = false;
    if (toKeep.length) keepSome();
  }, KEEPING_GAP);
}
