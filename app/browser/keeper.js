// Keeps the runs of this page, whatever tab is open: a tab is not there before it is looked at. The value is the
// document of the run that ended last. "lens:step" {run: its id, lane: key, number: of the pass} asks to step through
// one; "lens:run" says that one has come. "lens:counts" tells how a lane of Compare stands; the last of each is in `live`.

const MOST_RUNS = 12;
const keeper = {
  runs: new Map(), // by id, the newest last
  live: new Map(), // by lane, of one run
  wish: null, // the last "lens:step" that nobody has fulfilled
  follow(counts) {
    if ([...this.live.values()].some(({ run }) => run !== counts.run)) this.live.clear();
    this.live.set(counts.lane, counts);
  },
  add(run, text) {
    this.runs.delete(run.id);
    this.runs.set(run.id, run);
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
