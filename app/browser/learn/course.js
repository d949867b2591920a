// The course: a list of pages that tick themselves off, and the page that is open. What is done stays known here.

const KEPT = "mars-lens-learn";
const course = element.querySelector(".lens-learn");
const contents = make("ol", "lens-learn-contents");
const stage = make("article", "lens-learn-page");
put(course, put(make("nav", "lens-learn-nav"), contents), stage);
course.querySelector("nav").setAttribute("aria-label", "Pages of the course");

const finished = new Set(remembered());
let material = null;
let open = -1;
let place = null; // in the address

function remembered() {
  try {
    const ids = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(ids) ? ids : [];
  } catch {
    return [];
  }
}

function remember() {
  try {
    localStorage.setItem(KEPT, JSON.stringify([...finished]));
  } catch {
    // Without storage the ticks last as long as the page.
  }
}

const entries = PAGES.map((page, number) => {
  const tick = make("span", "lens-learn-tick");
  const state = make("span", "lens-learn-hidden");
  const link = put(make("button", "lens-learn-entry"), tick, `${number + 1}. ${page.title}`, state);
  link.type = "button";
  link.addEventListener("click", () => turn(number));
  contents.append(put(make("li"), link));
  return { link, tick, state };
});

function mark() {
  PAGES.forEach((page, number) => {
    const { link, tick, state } = entries[number];
    tick.textContent = finished.has(page.id) ? "✓" : "";
    state.textContent = finished.has(page.id) ? " (done)" : "";
    if (number === open) link.setAttribute("aria-current", "step");
    else link.removeAttribute("aria-current");
  });
}

function turn(number) {
  open = number;
  const page = PAGES[number];
  const task = put(make("p", "lens-learn-task"), make("strong", "", "To do: "), page.task);
  const praise = make("p", "lens-learn-praise");
  praise.setAttribute("role", "status");
  const playground = make("div", "lens-learn-stage");
  let lit = null;
  const done = () => {
    finished.add(page.id);
    remember();
    mark();
    praise.textContent = finished.size === PAGES.length ? "✓ Done, and with it the whole course." : "✓ Done.";
    lit?.classList.remove("lit");
  };
  const next = button(`Next: ${PAGES[number + 1]?.title ?? "back to the first page"}`, () => {
    turn((number + 1) % PAGES.length);
    stage.querySelector("h2").focus();
  });
  const title = make("h2", "", `${number + 1}. ${page.title}`);
  title.tabIndex = -1;
  stage.replaceChildren(title, ...page.text.map((text) => make("p", "", text)), task, playground, praise, next);
  next.classList.add("lens-learn-next");
  lit = page.build(playground, material, done);
  if (!finished.has(page.id)) lit?.classList.add("lit");
  mark();
  place?.say({ lesson: page.id });
}

function begin() {
  if (!props.value) return;
  material = JSON.parse(props.value);
  turn(Math.max(0, PAGES.findIndex((page) => !finished.has(page.id))));
}

// Where the course begins depends on its reader, so the address always names the page.
function goTo({ lesson }) {
  const number = PAGES.findIndex(({ id }) => id === lesson);
  if (number >= 0) turn(number);
  return number < 0 && lesson !== undefined ? ["lesson"] : [];
}

begin();
place = window.lensAddress?.join("learn", ["lesson"], goTo); // Gradio has a use for "page"
if (!place?.asked) place?.say({ lesson: PAGES[open]?.id });
watch("value", begin);
