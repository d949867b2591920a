// Which run to step through: the last ones of this browser, the shipped ones, or a file; and saving what is shown.

import { pageAddress } from "../shared/address.js";
import { button, make, offerFile, put } from "../shared/dom.js";
import { fileName, keeper, lastRun, SHARED_AS, shareFile } from "../shared/keeper.js";
import { Questions } from "../shared/messages.js";
import { decimals, oneLine } from "../shared/tokens.js";
import { StepView, usualLane } from "./view.js";

const OTHER_FILE = "Choose a file that “Save run” wrote; a shared page opens in a browser.";

class RunPicker {
  // `questions` go to Python; `onOpen` hears the run to show and where to begin, `looked` says what is looked at.
  constructor(root, { questions, shipped, largest, looked }, onOpen) {
    Object.assign(this, { root, questions, shipped, largest, looked, onOpen });
    this.shown = null;
    this.asked = null; // says which run was asked for last, while it is not there yet
    this.choice = make("select", "lens-field step-choice");
    this.choice.addEventListener("change", () => this.pick(this.choice.value));
    this.file = make("input", "step-file", "", { type: "file", accept: ".json,application/json", hidden: "" });
    this.file.addEventListener("change", () => this.load(this.file.files[0]));
    this.notice = make("p", "lens-refusal step-notice", "", { role: "alert" });
    this.save = button("lens-tool step-save", "Save run", () => offerRun(this.shown.run));
    const give = async () => (this.notice.textContent = await shareFile(this.shown.run, this.looked()));
    this.share = button("lens-tool lens-share", "Share", give, { title: SHARED_AS });
    const label = put(make("label", "step-choose lens-note"), make("span", "", "Run"), this.choice);
    const open = button("lens-tool", "Open file", () => this.file.click());
    const bar = put(make("div", "step-picker lens-row"), label, open, this.save, this.share, this.file);
    this.offers = make("div", "step-offers");
    put(root, bar, this.notice, this.offers);
    this.list();
  }

  // The choice, and while nothing is shown the shipped runs as an offer.
  list() {
    const own = [...keeper.runs.values()].reverse().map((run) => [run.id, nameOf(run)]);
    const entries = [...own, ...this.shipped.map(({ name, title }) => [name, title])];
    if (!this.shown) entries.unshift(["", "choose one"]);
    this.choice.replaceChildren(...entries.map(([value, text]) => new Option(text, value)));
    this.choice.value = this.shown ? this.shown.value : "";
    this.save.disabled = this.share.disabled = !this.shown;
    this.offers.hidden = Boolean(this.shown);
    if (this.shown) return;
    const intro =
      "See what the model read and proposed in each pass. Run a prompt in Compare, open a file, or choose one of " +
      "these runs.";
    this.offers.replaceChildren(make("p", "step-intro", intro), ...this.shipped.map((offer) => this.offer(offer)));
  }

  offer({ name, title, note, lanes }) {
    const node = button("lens-box lens-stack step-offer", "", () => this.pick(name, { asked: true }));
    return put(node, make("b", "", title), make("span", "", note), make("span", "lens-note", lanes));
  }

  ships(run) {
    return this.shipped.some(({ name }) => name === run);
  }

  has(run) {
    return this.ships(run) || keeper.runs.has(run);
  }

  // A run by its name or identity.
  async pick(value, place = {}) {
    const asked = (this.asked = {});
    const shipped = this.ships(value) && (await this.ask("shipped", value));
    if (this.asked !== asked) return;
    this.asked = null;
    const run = shipped ? JSON.parse(shipped) : keeper.open(value);
    if (run) this.show(value, run, place);
    else this.list();
  }

  show(value, run, place = {}) {
    this.notice.textContent = "";
    this.shown = { value, run };
    this.list();
    this.onOpen(run, place);
  }

  // The text of a run from Python, or undefined after saying why there is none.
  async ask(what, text) {
    const { run, problem } = await this.questions.ask(what, { text });
    this.notice.textContent = problem ?? "";
    return problem ? undefined : run;
  }

  // The run in a file, or one that this browser kept, which an earlier version may have written.
  async check(text) {
    const run = await this.ask("read", text);
    return run && keeper.add(run);
  }

  async load(file) {
    if (!file) return;
    this.file.value = ""; // so that the same name can be chosen again
    if (file.size > this.largest) {
      const [size, limit] = [file.size, this.largest].map(megabytes);
      this.notice.textContent = `This file is too large: ${size}. The limit is ${limit}.`;
      return;
    }
    const asked = (this.asked = {});
    const run = await this.check(await file.text());
    if (this.asked !== asked) return;
    this.asked = null;
    if (run) this.show(run.id, run);
    else this.notice.append(` ${OTHER_FILE}`);
  }

  // A run has come; it takes the stage unless somebody is looking at another one.
  receive(run) {
    const watched = this.root.offsetParent !== null && this.shown;
    if (keeper.wish) this.fulfil();
    else if (!watched && !this.asked) this.show(run.id, run);
    else this.list();
  }

  // Show what "lens:step" asked for, as soon as it is there.
  fulfil() {
    const { wish } = keeper;
    if (!this.has(wish?.run)) return;
    keeper.wish = null;
    this.pick(wish.run, { ...wish, asked: true });
  }

  // At first: what was asked for, else the newest run of this page, else the one from before the page was loaded.
  async begin() {
    const { newest } = keeper;
    if (newest) this.pick(newest.id);
    this.fulfil();
    const text = newest ? null : lastRun();
    if (text) await this.check(text);
    this.notice.textContent = "";
    this.root.dataset.ready = "true";
  }
}

const offerRun = (run) => offerFile(JSON.stringify(run), "application/json", `${fileName(run)}.json`);
const megabytes = (bytes) => `${decimals(bytes / 1e6, 1)} MB`;

// What differs between runs of one prompt comes first.
function nameOf(run) {
  const { prompt, answer_prefix: start } = run.question;
  const words = run.title || `${start ? `“${oneLine(start)} …” to ` : ""}${oneLine(prompt)}`;
  const time = new Date(run.date).toLocaleTimeString();
  return `${time} · ${run.passes} passes · ${words.length > 60 ? `${words.slice(0, 59)}…` : words}`;
}

// The address of the tab: a run, its lane, its pass. A shipped run is there for everybody; one of this browser only
// here, and only as long as it is kept.
//
// With `now` false something else has been asked for, and the address follows it; once `begun` is fulfilled the runs of
// this browser are there.
function stepAddress(picker, view, { now, begun }) {
  const say = () => view.run && place?.say(stepPlace(picker, view));
  const restore = async (wanted) => {
    if (!picker.ships(wanted.run)) await begun;
    const refused = await stepTo(picker, view, wanted);
    say();
    return refused;
  };
  const place = pageAddress()?.join("step", ["run", "lane", "pass"], restore, { now });
  view.root.addEventListener("step:moved", say);
  if (!place?.given) say();
}

// Show what an address asks for; the names that it cannot be asked for by.
async function stepTo(picker, view, { run, lane, pass }) {
  if (run === undefined) return [];
  const all = Object.entries({ run, lane, pass }).flatMap(([name, value]) => (value === undefined ? [] : [name]));
  if (!picker.has(run)) return all;
  const number = /^[1-9]\d{0,5}$/.test(pass ?? "") ? Number(pass) : null;
  await picker.pick(run, { lane, number });
  if (!view.run) return all;
  const refused = [];
  if (lane !== undefined && view.lane.lane.key !== lane) refused.push("lane");
  if (pass !== undefined && view.pass.number !== number) refused.push("pass");
  return refused;
}

// A pass that wrote nothing, of a prompt or a cache, has no number: the address is that of the one before.
function stepPlace({ shown }, { run, lane, pass }) {
  const number = lane.passes.slice(0, pass.index + 1).findLast(({ counted }) => counted)?.number ?? 1;
  return {
    run: shown.value,
    lane: lane.lane.key === usualLane(run).key ? null : lane.lane.key,
    pass: number === 1 ? null : number,
  };
}

// The tab: the picker of runs and the view. The value is Python's last answer.
export function mountStep({ element, props, watch, submit }) {
  const place = element.querySelector(".step");
  const pickerRoot = make("div", "lens-stack step-top");
  const viewRoot = make("div", "lens-stack step-body");
  put(place, pickerRoot, viewRoot);
  viewRoot.hidden = true;
  const view = new StepView(viewRoot);
  const questions = new Questions({ props, watch, submit });
  const looked = () => ({ lane: view.lane.lane.key, number: view.pass.number });
  const picker = new RunPicker(pickerRoot, { questions, looked, ...props }, (run, where) => {
    viewRoot.hidden = false;
    place.dataset.run = run.id;
    view.open(run, where);
    if (where.asked) view.player.range.focus({ preventScroll: true }); // what was pressed is gone
  });
  document.addEventListener("lens:run", (event) => picker.receive(event.detail));
  document.addEventListener("lens:step", () => picker.fulfil());
  const wished = Boolean(keeper.wish);
  stepAddress(picker, view, { now: !wished, begun: picker.begin() });
}
