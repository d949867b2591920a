// The course: a list of pages that tick themselves off, and the page that is open.

import { pageAddress } from "../shared/address.js";
import { button, keep, keptValue, make, put, status } from "../shared/dom.js";
import { SteppedLane } from "../step/lane.js";
import { PAGES } from "./pages.js";

const FINISHED = "mars-lens-learn";

class Course {
  constructor(root) {
    const before = keptValue(FINISHED); // the pages that this browser's reader has done
    this.finished = new Set(Array.isArray(before) ? before : []);
    this.stage = make("article", "lens-stack lens-learn-page");
    const contents = make("ol", "lens-learn-contents");
    const nav = put(make("nav", "", "", { "aria-label": "Pages of the course" }), contents);
    this.entries = PAGES.map((page, number) => this.entry(page, number, contents));
    put(root, nav, this.stage);
  }

  entry(page, number, contents) {
    const tick = make("span", "lens-learn-tick");
    const state = make("span", "lens-spoken");
    const link = button("lens-learn-entry", "", () => this.turn(number));
    put(link, tick, `${number + 1}. ${page.title}`, state);
    contents.append(put(make("li"), link));
    return { link, tick, state };
  }

  begin(material) {
    this.material = material;
    this.turn(Math.max(0, PAGES.findIndex((page) => !this.finished.has(page.id))));
  }

  // Each reader begins on another page, so the address always names the page.
  join(address) {
    const goTo = ({ lesson }) => {
      const number = PAGES.findIndex(({ id }) => id === lesson);
      if (number >= 0) this.turn(number);
      return number < 0 && lesson !== undefined ? ["lesson"] : [];
    };
    this.place = address?.join("learn", ["lesson"], goTo); // Gradio has a use for "page"
    if (!this.place?.given) this.place?.say({ lesson: PAGES[this.open]?.id });
  }

  mark() {
    PAGES.forEach((page, number) => {
      const { link, tick, state } = this.entries[number];
      tick.textContent = this.finished.has(page.id) ? "✓" : "";
      state.textContent = this.finished.has(page.id) ? " (done)" : "";
      link.ariaCurrent = number === this.open ? "step" : null; // which takes the attribute away
    });
  }

  turn(number) {
    this.open = number;
    const page = PAGES[number];
    const question = make("p", "lens-learn-question", page.question);
    const task = put(make("p", "lens-learn-task"), make("strong", "", "To do: "), page.task);
    const praise = status("lens-learn-praise");
    const playground = make("div", "lens-box lens-stack lens-learn-stage");
    const done = () => {
      this.finished.add(page.id);
      keep(FINISHED, JSON.stringify([...this.finished]));
      this.mark();
      praise.textContent = this.finished.size === PAGES.length ? "✓ Done, and with it the whole course." : "✓ Done.";
      playground.querySelector(".lit")?.classList.remove("lit");
    };
    const next = number + 1 < PAGES.length ? this.next(number + 1) : "";
    const title = make("h2", "", `${number + 1}. ${page.title}`, { tabindex: -1 });
    const text = page.text.map((said) => make("p", "", said));
    this.stage.replaceChildren(title, question, ...text, task, playground, praise, next);
    page.build(playground, this.material, done).classList.toggle("lit", !this.finished.has(page.id));
    this.mark();
    this.entries[number].link.scrollIntoView({ block: "nearest" }); // a phone shows few of them
    this.place?.say({ lesson: page.id });
  }

  next(number) {
    return button("lens-tool lens-learn-next", `Next: ${PAGES[number].title}`, () => {
      this.turn(number);
      this.stage.querySelector("h2").focus();
    });
  }
}

export function mountCourse({ element, props, watch }) {
  const course = new Course(element.querySelector(".lens-learn"));
  const begin = () => props.value && course.begin(materialOf(JSON.parse(props.value)));
  begin();
  course.join(pageAddress());
  watch("value", begin);
}

// What the pages draw: lanes of recorded runs, and measured times of passes. `ar`, `mars` and `exact` are lanes of the
// real model. `small` and `sweep`, from the lowest threshold up, are lanes of the small model, whose answers to
// `prompt` can be checked.
export function materialOf({ real, small, sweep, passTimes }) {
  const lanesOf = (...runs) => runs.flatMap((run) => run.lanes.map((lane) => new SteppedLane(lane)));
  const lanes = lanesOf(...sweep).sort((one, other) => one.lane.settings.threshold - other.lane.settings.threshold);
  const [ar, mars, exact] = lanesOf(real);
  return { ...small.question, ar, mars, exact, small: lanesOf(small)[0], sweep: lanes, passTimes };
}
