// Keeps the runs of this page, whatever tab is open: a tab is not there before it is looked at. The value is the
// document of the run that ended last. "lens:step" {run: its id, lane: key, number: of the pass} asks to step through
// one; "lens:run" says that one has come. "lens:counts" tells how a lane of Compare stands; the last of each is in `live`.

const MOST_RUNS = 12;
const keeper = {
  // By id, the newest last. Documents stay text: a dozen of them as objects would be most of what the browser must look
  // through whenever it collects its garbage.
  runs: new Map(),
  live: new Map(), // by lane, of one run
  wish: null, // the last "lens:step" that nobody has fulfilled
  follow(counts) {
    if ([...this.live.values()].some(({ run }) => run !== counts.run)) this.live.clear();
    this.live.set(counts.lane, counts);
  },
  get newest() {
    return [...this.runs.values()].at(-1);
  },
  open(id) {
    const kept = this.runs.get(id);
    return kept && JSON.parse(kept.text);
  },
  add(run, text) {
    const { id, title, date, question } = run;
    this.runs.delete(id);
    this.runs.set(id, { id, title, date, question, text });
    if (this.runs.size > MOST_RUNS) this.runs.delete(this.runs.keys().next().value);
    remember(text);
    document.dispatchEvent(new CustomEvent("lens:run", { detail: run }));
  },
};
element.querySelector(".lens-keeper").keeper = keeper;
watch("value", () => {
  if (props.value) keeper.add(JSON.parse(props.value), props.value);
});
document.addEventListener("lens:counts", (event) => keeper.follow(event.detail));
document.addEventListener("lens:step", (event) => {
  keeper.wish = event.detail;
  document.getElementById("tab-step-button")?.click();
});
