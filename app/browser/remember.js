// The last run, kept by the browser over a reload. Storage may be full or forbidden: then it is not kept, and nothing
// else changes.

const LAST_RUN = "mars-lens:last-run";
const MOST_KEPT = 4_000_000; // characters: browsers give a page about five million

function remember(text) {
  try {
    localStorage.removeItem(LAST_RUN);
    if (text.length <= MOST_KEPT) localStorage.setItem(LAST_RUN, text);
  } catch {
    return;
  }
}

function recall() {
  try {
    return localStorage.getItem(LAST_RUN);
  } catch {
    return null;
  }
}
