// The address of the view: its tab, and what of the tab's settings differs from their defaults. A tab joins with the
// names it knows, and is given what an address says of them: at once, and when the reader goes back or forward. It
// answers with the names whose values it cannot use, and says what the address is to hold:
//
//   const place = window.lensAddress?.join("learn", ["lesson"], ({ lesson }) => (known(lesson) ? [] : ["lesson"]));
//   place?.say({ lesson: "cache" }); // null and undefined stay out of the address
//
// Values are strings from anywhere: check them, and use them as text only. `restore` may be async; names that are null
// are all its own to refuse.

const MOST_IN_ADDRESS = 4_000; // characters of one value, as they stand in the address
const SETTLED = 300; // milliseconds after which a change is written: browsers limit how often

class Address {
  // `onRefused` gets the [name, value] pairs of the address that nobody could use.
  constructor(tabs, onRefused) {
    this.tabs = tabs;
    this.onRefused = onRefused;
    this.members = new Map();
    const { tab, views } = lensRead();
    this.views = { ...views };
    this.turn(tab);
    window.addEventListener("popstate", () => this.go());
  }

  turn(tab) {
    const known = this.tabs.includes(tab);
    if (!known) this.refuse([["tab", tab]]);
    this.tab = known ? tab : LENS_FIRST_TAB;
  }

  // With `now` false the tab is given the values of later addresses only.
  join(tab, names, restore, { now = true } = {}) {
    this.members.set(tab, { names, restore });
    const asked = now && Object.keys(this.views[tab] ?? {}).length > 0;
    if (asked) this.restore(tab, this.views[tab]);
    return { asked, say: (values) => this.say(tab, values) };
  }

  async restore(tab, values) {
    await null; // first the tab gets its place
    const { names, restore } = this.members.get(tab);
    const unknown = Object.keys(values).filter((name) => names && !names.includes(name));
    const refused = [...unknown, ...((await restore({ ...values })) ?? [])];
    this.refuse(refused.map((name) => [name, values[name]]));
    for (const name of refused) delete this.views[tab][name];
    if (refused.length) this.settle(tab);
  }

  refuse(pairs) {
    if (pairs.length) this.onRefused(pairs);
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
    const search = this.search();
    const url = `${location.pathname}${search}${location.hash}`;
    history[change]({ ...history.state, lens: { search, views: this.views } }, "", url);
  }

  search() {
    const said = new URLSearchParams([...new URLSearchParams(location.search)].filter(([name]) => LENS_FOREIGN.test(name)));
    if (this.tab !== LENS_FIRST_TAB) said.set("tab", this.tab);
    for (const [name, value] of Object.entries(this.views[this.tab] ?? {})) {
      if (!Address.tooLong(value)) said.set(name, value);
    }
    const text = said.toString();
    return text && `?${text}`;
  }

  // The names whose values are too long for the address.
  get left() {
    return Object.entries(this.views[this.tab] ?? {}).flatMap(([name, value]) => (Address.tooLong(value) ? [name] : []));
  }

  // The whole address, as it is now.
  get link() {
    this.write();
    return location.href;
  }

  static tooLong(value) {
    return new URLSearchParams({ value }).toString().length > MOST_IN_ADDRESS;
  }

  // A tab has been opened.
  opened(tab) {
    if (tab === this.tab || !this.tabs.includes(tab)) return;
    this.write();
    this.tab = tab;
    this.write("pushState");
  }

  // Back or forward: the tab of the address, as the address says.
  go() {
    clearTimeout(this.timer);
    const { tab, views } = lensRead();
    this.turn(tab);
    this.show();
    const [before, after] = [this.views[this.tab] ?? {}, views[this.tab] ?? {}];
    this.views[this.tab] = after;
    if (this.members.has(this.tab) && JSON.stringify(before) !== JSON.stringify(after)) this.restore(this.tab, after);
  }

  show() {
    document.getElementById(`tab-${this.tab}-button`)?.click();
  }
}
