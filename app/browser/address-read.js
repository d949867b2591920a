// What the address says: the tab, and by tab what there is to restore. Beside the address the browser keeps what does
// not stand in it: the settings of the other tabs, and texts too long for it. All of it are strings that anybody can
// have written.

const LENS_FIRST_TAB = "compare";
const LENS_FOREIGN = /^(__.*|view)$/; // Gradio's own names

function lensRead() {
  const said = [...new URLSearchParams(location.search)].filter(([name]) => !LENS_FOREIGN.test(name));
  const { tab = LENS_FIRST_TAB, ...values } = Object.fromEntries(said);
  const kept = history.state?.lens;
  return kept?.search === location.search ? { tab, views: kept.views } : { tab, views: { [tab]: values } };
}
