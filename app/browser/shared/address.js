// The address of the view: its tab, and what of the tab's settings differs from their defaults. A tab joins with the
// names it knows, and is given what an address says of them: at once, and when the reader goes back or forward. It
// answers with the names whose values it cannot use, and says what the address is to hold:
//
//   const place = pageAddress()?.join("learn", ["lesson"], ({ lesson }) => (known(lesson) ? [] : ["lesson"]));
//   place?.say({ lesson: "cache" }); // null and undefined stay out of the address
//
// Values are strings from anywhere: check them, and use them as text only. `restore` may be async; names that are null
// are all its own to refuse.

import { decoderOf } from "./decoders.js";
import { announce, openTab } from "./dom.js";

const OWN_PRESET = "Own"; // of a lane whose settings are not those of a preset
const FIRST_TAB = "compare";
const FOREIGN = /^(__.*|view)$/; // Gradio's own names
const MOST_IN_ADDRESS = 4_000; // characters of one value, as they stand in the address
const SETTLED = 300; // milliseconds after which a change is written: browsers limit how often

// The contents of the address: the tab, and by tab the values to restore. Beside the address the browser keeps what
// does not stand in it: the settings of the other tabs, and texts too long for it. All of it are strings that anybody
// can have written.
function readAddress() {
  const said = [...new URLSearchParams(location.search)].filter(([name]) => !FOREIGN.test(name));
  const { tab = FIRST_TAB, ...values } = Object.fromEntries(said);
  const kept = history.state?.lens;
  return kept?.search === location.search ? { tab, views: kept.views } : { tab, views: { [tab]: values } };
}

// The part of the address about Compare, for Python to restore.
export const compareParameters = () => readAddress().views[FIRST_TAB] ?? {};

let current; // the address of the page

// The address of this page, whose tabs are these: once the masthead is there, which comes before the tabs. `onRefused`
// gets the [name, value] pairs that nobody could use, `ask` makes Python restore the settings of Compare.
export function openAddress(tabs, onRefused, ask) {
  current = new Address(tabs, onRefused);
  current.settings = new SettingsInAddress(current, ask);
  return current;
}

export const pageAddress = () => current;

class Address {
  constructor(tabs, onRefused) {
    this.tabs = tabs;
    this.onRefused = onRefused;
    this.members = new Map();
    const { tab, views } = readAddress();
    this.views = { ...views };
    this.turn(tab);
    window.addEventListener("popstate", () => this.go());
  }

  turn(tab) {
    const known = this.tabs.includes(tab);
    if (!known) this.onRefused([["tab", tab]]);
    this.tab = known ? tab : FIRST_TAB;
  }

  // With `now` false the tab is given the values of later addresses only.
  join(tab, names, restore, { now = true } = {}) {
    this.members.set(tab, { names, restore });
    const given = now && Object.keys(this.views[tab] ?? {}).length > 0;
    if (given) this.restore(tab, this.views[tab]);
    return { given, say: (values) => this.say(tab, values) };
  }

  async restore(tab, values) {
    await null; // first the tab gets its place
    const { names, restore } = this.members.get(tab);
    const unknown = Object.keys(values).filter((name) => names && !names.includes(name));
    const refused = [...unknown, ...((await restore({ ...values })) ?? [])];
    this.onRefused(refused.map((name) => [name, values[name]]));
    for (const name of refused) if (this.views[tab][name] === values[name]) delete this.views[tab][name];
    if (refused.length) this.settle(tab);
  }

  say(tab, values) {
    const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined);
    this.views[tab] = Object.fromEntries(given.map(([name, value]) => [name, String(value)]));
    this.settle(tab);
  }

  settle(tab) {
    if (tab !== this.tab) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), SETTLED);
  }

  // Write what has changed; a new entry of the history for a new tab, the same one for settings.
  write(change = "replaceState") {
    clearTimeout(this.timer);
    if (location.protocol === "file:") return; // browsers let no file change its address
    const search = this.search();
    const url = `${location.pathname}${search}${location.hash}`;
    history[change]({ ...history.state, lens: { search, views: this.views } }, "", url);
  }

  search() {
    const said = new URLSearchParams([...new URLSearchParams(location.search)].filter(([name]) => FOREIGN.test(name)));
    if (this.tab !== FIRST_TAB) said.set("tab", this.tab);
    for (const [name, value] of Object.entries(this.views[this.tab] ?? {})) {
      if (!Address.tooLong(value)) said.set(name, value);
    }
    const text = said.toString();
    return text && `?${text}`;
  }

  // The names whose values are too long for the address.
  get left() {
    const values = Object.entries(this.views[this.tab] ?? {});
    return values.flatMap(([name, value]) => (Address.tooLong(value) ? [name] : []));
  }

  // The whole address, as it is now.
  get link() {
    this.write();
    return location.href;
  }

  static tooLong(value) {
    return new URLSearchParams({ value }).toString().length > MOST_IN_ADDRESS;
  }

  opened(tab) {
    if (tab === this.tab || !this.tabs.includes(tab)) return;
    this.write();
    this.tab = tab;
    this.write("pushState");
    window.scrollTo(0, 0); // each tab begins at its top
  }

  // Back or forward: the tab of the address, as the address says.
  go() {
    clearTimeout(this.timer);
    const { tab, views } = readAddress();
    this.turn(tab);
    openTab(this.tab);
    const [before, after] = [this.views[this.tab] ?? {}, views[this.tab] ?? {}];
    this.views[this.tab] = after;
    if (this.members.has(this.tab) && JSON.stringify(before) !== JSON.stringify(after)) this.restore(this.tab, after);
  }
}

const SECOND = "b."; // what the names of the second lane's settings begin with
const OF_A_QUESTION = new Set(["task", "seed", "prompt", "start"]);

// The settings of a lane, the fields of a `LaneChoice`, as an address names them.
function inAddress({ follows = true, threshold = null, ...fields }) {
  const mode = follows ? "slider" : threshold === null ? "one" : "own";
  const said = Object.entries({ ...fields, mode, threshold }).filter(([, value]) => value !== null);
  return Object.fromEntries(said.map(([name, value]) => [`${SECOND}${name}`, value]));
}

// The settings of Compare in the address. They belong to Python's components: Gradio tells their values here, and
// Python checks what an address says before any of them is set.
class SettingsInAddress {
  // `ask` makes Python restore what the address says; when the page is loaded, it does so unasked.
  constructor(address, ask) {
    Object.assign(this, { address, usual: null, values: null });
    // A prompt that came with its problem is named by family and seed, and how many lanes there are follows the window:
    // they stand in the address only if a person or an address gave them.
    const take = ({ prompt = null, lanes = null }) => (this.given = { prompt, lanes });
    take(compareParameters());
    const restore = (said) => {
      take(said);
      ask();
    };
    this.place = address.join(FIRST_TAB, null, restore, { now: false });
    document.addEventListener("lens:use", ({ detail: { choice, ...problem } }) => {
      this.open({ ...inAddress(choice), ...problem });
    });
    document.addEventListener("lens:problem", ({ detail }) => this.open(detail));
  }

  // What is asked for, as an address says it: {task, seed}, settings of the second lane in place of its own, or
  // {models}, which leaves the number of lanes alone. Beside an exact second lane the third one goes, unless it was
  // changed.
  open(asked) {
    const stays = ([name]) => {
      if (asked.models) return name === "lanes";
      return !(asked.task && OF_A_QUESTION.has(name)) && !("b.mode" in asked && name.startsWith(SECOND));
    };
    const before = Object.entries(this.address.views[FIRST_TAB] ?? {}).filter(stays);
    const twice = decoderOf(asked["b.decoder"]).family === "exact" && !before.some(([name]) => name.startsWith("c."));
    this.place.say({ ...Object.fromEntries(before), ...asked, ...(twice && { lanes: 2 }) });
    this.address.write();
    this.address.restore(FIRST_TAB, this.address.views[FIRST_TAB]);
    openTab(FIRST_TAB);
    window.scrollTo(0, 0);
  }

  give(name, value) {
    this.given[name] = String(value);
    if (!this.usual || !this.values) return; // the change may have been told before
    this.change(this.values.with(Object.keys(this.usual).indexOf(name), value));
  }

  // The values of all components, whenever one of them has changed.
  change(values) {
    this.values = values;
    if (!this.usual) return;
    const now = Object.fromEntries(Object.keys(this.usual).map((name, at) => [name, values[at]]));
    announce("lens:prompt", now.prompt);
    const said = Object.entries(now).filter(([name, value]) => this.says(name, value, now));
    this.place.say(Object.fromEntries(said));
  }

  // True if the address has to say it. A preset stands for all settings of its lane, and these for the lack of one.
  says(name, value, now) {
    if (value === "" || value === null || value === undefined) return false;
    if (name in this.given) return String(value) === this.given[name];
    const [lane, setting] = name.split(".");
    const preset = setting && now[`${lane}.preset`];
    if (setting && (setting === "preset") === (preset === OWN_PRESET)) return false;
    return String(value) !== String(this.usual[name]);
  }

  // Python has restored what it could; `refused` are the [name, value] pairs that it could not, `usual` the defaults
  // with this choice of models.
  hear({ refused, usual }) {
    this.address.onRefused(refused);
    this.usual = usual;
    if (this.values) this.change(this.values);
  }
}
