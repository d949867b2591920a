// The settings of Compare in the address. They belong to Python's components: Gradio tells their values here, and Python
// checks what an address says before any of them is set.

const OWN_PRESET = "Own"; // of a lane whose settings are not those of a preset

class SettingsInAddress {
  // `ask` makes Python restore what the address says; when the page is loaded, it does so unasked.
  constructor(address, ask) {
    Object.assign(this, { address, usual: null, values: null });
    this.given = this.take(lensRead().views[LENS_FIRST_TAB] ?? {});
    const restore = (said) => {
      this.given = this.take(said);
      ask();
    };
    this.place = address.join(LENS_FIRST_TAB, null, restore, { now: false });
  }

  // A prompt that came with its problem is named by family and seed, and how many lanes there are follows the window:
  // they stand in the address only if a person or an address gave them.
  take({ prompt = null, lanes = null }) {
    return { prompt, lanes };
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
    const said = Object.entries(now).filter(([name, value]) => this.says(name, value, now));
    this.place.say(Object.fromEntries(said));
  }

  // Whether the address has to say it. A preset stands for all settings of its lane, and these for the lack of one.
  says(name, value, now) {
    if (value === "" || value === null || value === undefined) return false;
    if (name in this.given) return String(value) === this.given[name];
    const [lane, setting] = name.split(".");
    const preset = setting && now[`${lane}.preset`];
    if (setting && (setting === "preset") === (preset === OWN_PRESET)) return false;
    return String(value) !== String(this.usual[name]);
  }

  // Python has restored what it could; `refused` are the [name, value] pairs that it could not, `usual` the defaults.
  hear({ refused, usual }) {
    this.address.refuse(refused);
    this.usual = usual;
    if (this.values) this.change(this.values);
  }
}
