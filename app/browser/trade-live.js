// A lane that writes, or last wrote, in Compare. What it says comes from "lens:counts"; its speed is known, its accuracy
// is not: it has written one text.

const LANE_COLOURS = { ar: "--lens-ar", masks: "--lens-mars", exact: "--lens-exact" };

class LiveLane {
  constructor(told, others) {
    Object.assign(this, { told, others });
  }

  colour() {
    const style = getComputedStyle(document.body);
    const name = LANE_COLOURS[this.told.family] ?? "--lens-mars";
    return (style.getPropertyValue(name) || style.getPropertyValue("--lens-mars")).trim();
  }

  // Where it lies along a measure, or null where that is not known yet.
  place(measure) {
    const { counts } = this.told;
    if (!counts?.passes) return null;
    if (measure === "tokens_per_forward") return counts.tokensPerForward || null;
    if (measure === "tokens_per_second") return counts.tokensPerSecond || null;
    const baseline = this.others.find(({ family }) => family === "ar")?.counts?.tokensPerSecond;
    return baseline && counts.tokensPerSecond ? counts.tokensPerSecond / baseline : null;
  }

  get name() {
    return `${String(this.told.lane).toUpperCase()}: ${this.told.checkpoint}, ${plainWords(this.told.decoder)}`;
  }

  // For the figure, whose text is read as markup: letters, digits and plain signs only.
  label(measure) {
    const words = `${String(this.told.lane).toUpperCase()} now ${decimals(this.place(measure), 2)}`;
    return words.replace(/[^\p{L}\p{N} .,:]/gu, "");
  }

  sentence(measure) {
    const x = this.place(measure);
    const units = { tokens_per_forward: "tokens per forward", tokens_per_second: "tokens a second", speedup: "× AR" };
    const threshold = this.told.threshold ?? null;
    const at = this.told.family === "masks" ? `, ${thresholdName(threshold)}` : "";
    return `${this.name}${at}: ${x === null ? "not known yet" : `${decimals(x, 2)} ${units[measure]}`}`;
  }
}

function plainWords(text) {
  return String(text ?? "").replaceAll("_", " ");
}

// The list below the figure, which says the same in words.
class LiveList {
  constructor(keeper, onChange) {
    this.keeper = keeper;
    this.root = make("section", "trade-live");
    this.root.hidden = true;
    this.list = make("ul");
    const note = "One text, written now on this machine, alone: its speed is known, its accuracy is not.";
    put(this.root, make("h3", "", "Now in Compare"), this.list, make("p", "trade-small", note));
    this.onChange = onChange;
    document.addEventListener("lens:counts", () => this.soon());
  }

  get lanes() {
    const told = [...(this.keeper?.live?.values?.() ?? [])];
    return told.map((lane) => new LiveLane(lane, told));
  }

  // The keeper hears the same event, before or after: look when both have.
  soon() {
    if (this.due || !this.root.isConnected || !this.root.parentElement.offsetParent) return;
    this.due = setTimeout(() => {
      this.due = 0;
      this.onChange(this.lanes);
    }, 100);
  }

  show(live) {
    const lanes = live?.axes.length ? this.lanes : [];
    this.root.hidden = lanes.length === 0;
    this.list.replaceChildren(
      ...lanes.map((lane) => {
        const item = make("li", `trade-lane lens-lane-${lane.told.family}`);
        return put(item, make("span", "trade-dash"), make("span", "", lane.sentence(live.measure)));
      }),
    );
  }
}
