// Keeps the runs of this page, whatever tab is open: a tab is not there before it is looked at. The value is the run
// that ended last. "lens:step" {run: id, lane: key, number: pass} asks to step through one; "lens:run" says that one
// came.

import { isCounted } from "./decoders.js";
import { announce, keep, kept, offerFile, openTab } from "./dom.js";
import { Questions } from "./messages.js";

const MOST_RUNS = 12;
const LAST_RUN = "mars-lens:last-run";
const MOST_KEPT = 4_000_000; // characters: browsers give a page about five million

export const keeper = {
  // By id, the newest last. They stay text: a dozen of them as objects would be most of what the browser must look
  // through whenever it collects its garbage.
  runs: new Map(),
  wish: null, // the last "lens:step" that nobody has fulfilled
  get newest() {
    return [...this.runs.values()].at(-1);
  },
  open(id) {
    const found = this.runs.get(id);
    return found && JSON.parse(found.text);
  },
  add(text) {
    const run = JSON.parse(text);
    const { id, title, date, question, lanes } = run;
    const passes = lanes.map(({ records }) => records.filter(({ phase }) => isCounted(phase)).length).join("/");
    this.runs.delete(id);
    this.runs.set(id, { id, title, date, question, passes, text });
    if (this.runs.size > MOST_RUNS) this.runs.delete(this.runs.keys().next().value);
    keep(LAST_RUN, text.length <= MOST_KEPT ? text : null);
    announce("lens:run", run);
    return run;
  },
};

// The document of the last run as text, also of one from before the page was loaded.
export const lastRun = () => kept(LAST_RUN);

export function mountRuns({ props, watch }) {
  watch("value", () => props.value && keeper.add(props.value));
  document.addEventListener("lens:step", (event) => {
    keeper.wish = event.detail;
    openTab("step");
  });
}

// Sharing a run: as a page of its own, which is one file.
let sharing = null; // the questions to Python

export const SHARED_AS = "Save this run as one HTML file that opens anywhere";

// `place` is the lane and the number of the pass at which it opens; returns a sentence if that is not possible.
export async function shareFile(run, place = {}) {
  const { page, problem = "" } = await sharing.ask("page", { ...place, text: JSON.stringify(run) });
  if (page) offerFile(page, "text/html", `${fileName(run)}.html`);
  return problem;
}

export const fileName = (run) => `mars-lens-${run.date.slice(0, 10).replace(/[^0-9-]/g, "")}-${run.id.slice(0, 8)}`;

export const mountSharing = (part) => (sharing = new Questions(part));
