// The tab: a shelf of runs and the view. The value is Python's last answer.

const place = element.querySelector(".step");
const keeper = document.querySelector(".lens-keeper").keeper;
const shelfRoot = make("div", "step-top");
const viewRoot = make("div", "step-body");
put(place, shelfRoot, viewRoot);
viewRoot.hidden = true;
const view = new StepView(viewRoot);
const line = new Line((message) => trigger("submit", message));
const shelf = new Shelf(shelfRoot, { line, keeper, ...props }, (run, where) => {
  viewRoot.hidden = false;
  place.dataset.run = run.id;
  view.open(run, where);
});

watch("value", () => {
  if (props.value) line.hear(JSON.parse(props.value));
});
document.addEventListener("lens:run", (event) => shelf.receive(event.detail));
document.addEventListener("lens:step", () => shelf.fulfil());
const wished = Boolean(keeper.wish);
stepAddress(shelf, view, { now: !wished, begun: shelf.begin() });
