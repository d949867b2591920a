// The page without a server: mounts the parts of page.js in the HTML of mars_site/page.py, and answers what they would
// ask Python from the files beside it. Where models were exported too, Compare can write in this browser (live/panel.js).

import { LivePanel } from "./live/panel.js";
import "../../app/browser/page.js";
import { pageAddress } from "../../app/browser/shared/address.js";
import { announce, button, ours } from "../../app/browser/shared/dom.js";
import { makers, recordedRun } from "../../app/browser/shared/feed.js";
import { keeper } from "../../app/browser/shared/keeper.js";
import { readRun } from "./saved-run.js";

const OFFLINE = "A file of this page could not be read. Is this browser online?";
const given = JSON.parse(document.getElementById("lens-given").textContent);

const inside = JSON.parse(document.getElementById("lens-inside")?.textContent ?? "null"); // of a page that is one file

// A text of the folder of data.
async function dataText(name) {
  if (inside) return inside[name];
  const answer = await fetch(ours(`data/${name}.z`));
  if (!answer.ok) throw new Error(name);
  return new Response(answer.body.pipeThrough(new DecompressionStream("deflate"))).text();
}

const dataValue = async (name) => JSON.parse(await dataText(name));

let live = null;
makers.follow = (name, heard) => live?.follow(name, heard) ?? recordedRun(`runs/${name}.lines`, heard, dataText);

// What Python answers in the app, by part of the page and question.
const ANSWERS = {
  step: {
    read: ({ text }) => ({ run: JSON.stringify(readRun(text)) }),
    shipped: async ({ text }) => ({ run: await dataText(`runs/${text}.json`) }),
  },
  tradeoffs: {
    view: ({ about }) => viewOf(about),
    card: async ({ about }) => {
      const { card, problem } = await runOf(about.id);
      return card ?? { problem };
    },
    samples: ({ about }) => textsOf(about),
  },
};

// The measured view that these choices name; a choice that a list does not have is the first of the list.
async function viewOf(about) {
  const { views } = await dataValue("trade/index.json");
  let left = views.filter(({ figure }) => figure === about.figure);
  for (const name of ["against", "runs", "batch", "task"]) {
    const named = left.filter((view) => view[name] === about[name]);
    left = named.length ? named : left.filter((view) => view[name] === left[0][name]);
  }
  if (!left.length) return { problem: "There is no such figure; choose one from the list." };
  const found = left.find(({ points }) => points === null || points === about.points);
  const budgets = left.map(({ points }) => points).sort((one, other) => one - other);
  return found ? dataValue(found.file) : { problem: `Here this page answers for ${budgets.join(", ")} points; the app for any number.` };
}

async function runOf(id) {
  const place = (await dataValue("trade/index.json")).runs.indexOf(id);
  return place < 0 ? { problem: "There is no such run; choose one from the figure." } : dataValue(`trade/run-${place}.json`);
}

// The first texts of a run; of those that are right or wrong alone nobody has counted the others.
async function textsOf({ id, right, first }) {
  const { few } = await dataValue("trade/index.json");
  const { texts } = await runOf(id);
  if (first) return { total: 0, problem: few };
  if (right === null || !texts.samples) return texts;
  return { samples: texts.samples.filter((sample) => sample.right === right), total: 0, problem: few };
}

// A part of the page, as Gradio mounts it; returns what sets its value.
function mount(element) {
  element.dataset.mounted = "true";
  const name = element.dataset.drawn;
  const props = { ...given.props[name] };
  const watching = [];
  const set = (value) => {
    props.value = value;
    for (const act of watching) act();
  };
  const submit = async (question) => {
    const answer = ANSWERS[name]?.[question?.ask];
    if (!answer) return;
    const told = await Promise.resolve(question).then(answer).catch((error) => ({ problem: error.sentence ?? OFFLINE }));
    set(JSON.stringify({ ...told, ticket: question.ticket }));
  };
  window.lens[name]({ element, props, watch: (_, act) => watching.push(act), submit, tell: () => {} });
  return set;
}

// The tabs; what is in one is mounted when it is first opened.
function mountTabs() {
  const root = document.getElementById("tabs");
  const tabs = [...root.querySelectorAll("[role=tab]")];
  const panelOf = (tab) => document.getElementById(tab.getAttribute("aria-controls"));
  const open = (tab) => {
    for (const each of tabs) {
      each.setAttribute("aria-selected", String(each === tab));
      each.tabIndex = each === tab ? 0 : -1;
      panelOf(each).hidden = each !== tab;
    }
    const waiting = panelOf(tab).querySelectorAll("[data-drawn]:not([data-mounted])");
    waiting.forEach(mount);
  };
  for (const tab of tabs) tab.addEventListener("click", () => open(tab));
  root.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const place = tabs.indexOf(event.target);
    if (!step || place < 0) return;
    const next = tabs.at((place + step) % tabs.length);
    next.focus();
    next.click();
  });
  return () => {
    root.prepend(root.querySelector(".tab-wrapper")); // the masthead waits for the bar to come
    open(tabs[0]);
  };
}

// Compare: a button for each recorded run, of which one is on the stage and in the address.
class RecordedRuns {
  constructor(setStage) {
    this.setStage = setStage;
    this.field = document.querySelector("#prompt textarea");
    this.buttons = new Map(given.runs.map((run) => [run, button("lens-tool", run.label, () => this.choose(run))]));
    const [prompts, others] = document.querySelectorAll(".lens-examples");
    for (const [run, node] of this.buttons) (run.question ? prompts : others).append(node);
  }

  // Play the run that was chosen last once more.
  again() {
    this.setStage(`${JSON.stringify({ kind: "follow", id: this.chosen.name })}\n`);
  }

  begin() {
    this.place = pageAddress().join("compare", null, (values) => this.restore(values));
    if (!this.place.given) this.choose(given.runs[0]);
  }

  // What an address of this page asks for, or one of the app; returns the names that ask for something else.
  restore({ run, prompt, task, seed, ...others }) {
    const asks = (each) => (run ? each.name === run : prompt ? each.prompt === prompt : task && each.task === task && String(each.seed) === String(seed));
    const found = given.runs.find(asks);
    this.choose(found ?? given.runs[0]);
    const used = found ? [] : Object.entries({ run, prompt, task, seed }).flatMap(([name, value]) => (value === undefined ? [] : [name]));
    return [...used, ...Object.keys(others).filter((name) => !FROM_THE_APP.includes(name))];
  }

  choose(run) {
    for (const [each, node] of this.buttons) node.setAttribute("aria-pressed", String(each === run));
    this.chosen = run;
    this.field.value = run.prompt;
    announce("lens:prompt", run.prompt);
    this.again();
    live?.rest();
    this.place?.say({ run: run === given.runs[0] ? null : run.name });
  }
}

const FROM_THE_APP = ["models", "lanes"]; // which a recorded run answers

document.body.classList.toggle("dark", window.matchMedia("(prefers-color-scheme: dark)").matches);
const openFirst = mountTabs();
for (const element of document.querySelectorAll("[data-drawn]")) {
  if (!element.closest("[role=tabpanel]")) mount(element);
}
const setStage = mount(document.getElementById("stage"));
const recorded = new RecordedRuns(setStage);
recorded.begin();
if (given.live) live = new LivePanel(document.querySelector(".lens-live"), given.live, { stage: setStage, recorded: () => recorded.again(), prompt: recorded.field });
openFirst();
if (inside) keeper.wish = { run: given.props.step.shipped[0].name }; // not the last run that this browser kept
if (given.begin) setTimeout(() => announce("lens:step", given.begin)); // once the masthead has opened the first tab
if (!inside) navigator.serviceWorker?.register(ours("worker.js")).catch(() => {}); // the page works without one
