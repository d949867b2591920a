// The rejected proposals of lanes that have ended: each pass keeps the one at which it ended. They are shown a portion at a
// time, over all lanes, because each time the whole text is laid out anew.

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
