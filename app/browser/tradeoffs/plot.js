// One figure: drawn anew where it stands, so that the zoom stays; as light or dark as the page; as high as it needs.

import { decoderOf, familyColour } from "../shared/decoders.js";
import { make, ours, put } from "../shared/dom.js";
import { keeper } from "../shared/keeper.js";
import { decimals, plainWords, thresholdName } from "../shared/tokens.js";

const PHONE = 640; // pixels; below it a finger on the figure scrolls the page
const MODEBAR = 26; // pixels; on a telephone it is always there, and must not lie on titles
const ROUNDS = 4;
const FITS = 2; // pixels
const REACH = 24; // pixels from the middle of a mark
// The first would send the figure to a server of somebody else's; pictures are made by a button of ours.
const BUTTONS_LEFT_OUT = ["sendChartToCloud", "toImage", "select2d", "lasso2d", "autoScale2d"];
const QUIET = { displaylogo: false, responsive: false, plotlyServerURL: "", modeBarButtonsToRemove: BUTTONS_LEFT_OUT };

// A series without the names of its marks, for which a phone has no room.
function unnamed(trace) {
  return trace.customdata && trace.mode ? { ...trace, mode: trace.mode.replace("+text", "") } : trace;
}

export class TradePlot {
  // `onPick` hears the id of the run whose mark was clicked, `onSeen` that the figure is on screen again.
  constructor(root, plotly, templates, { onPick, onSeen }) {
    Object.assign(this, { root, plotly, templates, onPick, onSeen });
    this.lanes = [];
    this.figure = null;
    this.work = Promise.resolve();
    new MutationObserver(() => this.repaint()).observe(document.body, { attributeFilter: ["class"] });
    document.addEventListener("lens:looks", () => this.repaint());
    new ResizeObserver(() => this.resize()).observe(root);
  }

  // How the page looks: its ground, and how much larger type is (`--lens-type`).
  get looks() {
    const type = getComputedStyle(document.documentElement).getPropertyValue("--lens-type");
    return { ground: document.body.classList.contains("dark") ? "dark" : "light", type: Number(type) || 1 };
  }

  // Figures are drawn one after the other, and only the last that was asked for.
  show(figure, live) {
    Object.assign(this, { figure, live });
    return this.next(() => (this.figure === figure ? this.draw() : undefined));
  }

  next(work) {
    this.work = this.work.then(work).catch((error) => console.error(error));
    return this.work;
  }

  async draw() {
    const narrow = this.root.clientWidth < PHONE;
    this.drawn = this.looks;
    const { ground, type } = this.drawn;
    const template = scaled(this.templates[ground], type);
    const layout = { ...scaled(this.figure.layout, type), template, width: this.root.clientWidth };
    if (narrow) {
      layout.dragmode = false;
      layout.margin = { ...layout.margin, t: layout.margin.t + MODEBAR };
    }
    this.own = { shapes: layout.shapes ?? [], annotations: layout.annotations ?? [] };
    Object.assign(layout, this.marked());
    const data = narrow ? this.figure.data.map(unnamed) : this.figure.data;
    if (this.root.layout && this.root.layout.uirevision !== layout.uirevision) this.clear();
    await this.plotly.react(this.root, data, layout, QUIET);
    if (!this.heard) {
      this.heard = true;
      this.root.on("plotly_click", ({ points, event }) => this.clicked(points, event));
      this.root.on("plotly_hover", ({ points, event }) => this.hovered(points, event));
    }
    await this.fit();
  }

  // Another figure begins afresh: the room that this one's legend took may be more than all that the other has.
  clear() {
    this.plotly.purge(this.root);
    this.heard = false;
  }

  // The legend below takes more lines on a narrow page, and would scroll: give it and the plot area what they need.
  async fit() {
    for (let round = 0; round < ROUNDS; round += 1) {
      const { _size: size, legend, height } = this.root._fullLayout;
      const needed = legend?._height ?? 0;
      const missing = this.figure.layout.meta.plot_height - size.h + Math.max(0, needed - (legend?._effHeight ?? 0));
      if (Math.abs(missing) < FITS) return;
      await this.plotly.relayout(this.root, { height: height + missing, "legend.maxheight": Math.max(needed, 30) });
    }
  }

  // Of marks that overlap, Plotly takes the last one under the pointer; a person means the nearest.
  clicked(points, event) {
    const near = this.nearest(event);
    const id = near ? this.root._fullData[near.curveNumber].customdata[near.pointNumber] : null;
    const found = id ?? points.map(({ customdata }) => customdata).find((each) => typeof each === "string" && each);
    if (found) this.onPick(found);
  }

  hovered(points, event) {
    const near = this.nearest(event);
    if (!near || points.some((point) => point.curveNumber === near.curveNumber && point.pointNumber === near.pointNumber)) {
      return;
    }
    const { curveNumber, pointNumber, panel } = near;
    this.plotly.Fx.hover(this.root, [{ curveNumber, pointNumber }], panel);
  }

  // The mark of a run nearest to the pointer, where one is in reach.
  nearest(event) {
    if (typeof event?.clientX !== "number") return null;
    const box = this.root.getBoundingClientRect();
    return nearestMark(this.root._fullData, this.root._fullLayout, event.clientX - box.left, event.clientY - box.top);
  }

  repaint() {
    if (!this.figure || !this.drawn) return;
    const { ground, type } = this.looks;
    if (ground !== this.drawn.ground || type !== this.drawn.type) this.show({ ...this.figure }, this.live);
  }

  resize() {
    const width = this.root.clientWidth;
    if (!width) this.width = 0;
    if (!this.figure || !width) return;
    if (!this.width) this.onSeen();
    this.width = width;
    if (width === this.root._fullLayout?.width) return;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.show({ ...this.figure }, this.live), 150);
  }

  // The lanes of Compare, where they belong along x. Their accuracy is not known, so each is a line.
  follow(lanes) {
    this.lanes = lanes;
    if (!this.own || !this.root.clientWidth) return;
    this.next(() => this.plotly.relayout(this.root, this.marked()));
  }

  // The shapes and annotations of the figure, and after them those of the lanes.
  marked() {
    const marks = this.marks();
    const [shapes, annotations] = [this.own.shapes, this.own.annotations];
    return { shapes: [...shapes, ...marks.shapes], annotations: [...annotations, ...marks.annotations] };
  }

  marks() {
    const found = { shapes: [], annotations: [] };
    for (const axis of this.live?.axes ?? []) {
      this.lanes.forEach((lane, row) => {
        const x = lane.place(this.live.measure);
        if (x === null || !lane.belongs(this.live)) return;
        const where = { xref: `x${axis}`, yref: `y${axis} domain` };
        const line = { color: lane.colour(), width: 2.5, dash: "dashdot" };
        found.shapes.push({ type: "line", x0: x, x1: x, y0: 0, y1: 1, line, layer: "above", ...where });
        if (axis !== this.live.axes[0]) return;
        found.annotations.push({
          ...where,
          x,
          y: 0.02 + 0.09 * row,
          text: lane.label(this.live.measure),
          showarrow: false,
          xanchor: "left",
          yanchor: "bottom",
          xshift: 4,
          font: { size: 12, color: lane.colour() },
          bgcolor: getComputedStyle(this.root).getPropertyValue("--lens-paper"),
        });
      });
    }
    return found;
  }

  // The figure as a picture on the ground of the page.
  async picture() {
    const layout = { ...this.root.layout, paper_bgcolor: getComputedStyle(this.root).getPropertyValue("--lens-paper") };
    const { width, height } = this.root._fullLayout;
    const options = { format: "png", scale: 2, width, height, imageDataOnly: true };
    const packed = await this.plotly.toImage({ data: this.root.data, layout }, options);
    return Uint8Array.from(atob(packed), (sign) => sign.charCodeAt(0));
  }
}

// Of the marks of scatter traces that have an id, the nearest to a place in pixels; null beyond REACH.
export function nearestMark(traces, layout, x, y) {
  let best = null;
  traces.forEach((trace, curveNumber) => {
    if (trace.type !== "scatter" || trace.visible !== true || !trace.customdata) return;
    const [across, up] = [layout[trace.xaxis.replace("x", "xaxis")], layout[trace.yaxis.replace("y", "yaxis")]];
    trace.customdata.forEach((id, pointNumber) => {
      if (typeof id !== "string" || !id) return;
      const dx = across._offset + across.d2p(trace.x[pointNumber]) - x;
      const far = Math.hypot(dx, up._offset + up.d2p(trace.y[pointNumber]) - y);
      if (far > REACH || far >= (best?.far ?? Infinity)) return;
      best = { curveNumber, pointNumber, far, panel: `${trace.xaxis}${trace.yaxis}` };
    });
  });
  return best;
}

// The same with every size of type times `factor`.
export function scaled(value, factor) {
  if (factor === 1 || typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => scaled(item, factor));
  const change = ([name, item]) => {
    const isFont = name.endsWith("font") && typeof item?.size === "number";
    return [name, isFont ? { ...item, size: item.size * factor } : scaled(item, factor)];
  };
  return Object.fromEntries(Object.entries(value).map(change));
}

let loaded; // once it has been asked for

// The drawing library: fetched once, when figures are first looked at.
export function plotly(address) {
  loaded ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = ours(address);
    script.addEventListener("load", () => resolve(window.Plotly));
    script.addEventListener("error", () => {
      loaded = undefined;
      script.remove();
      reject(new Error("The drawing library could not be loaded from the server. Reload the page."));
    });
    document.head.append(script);
  });
  return loaded;
}

// A lane that writes, or last wrote, in Compare. Its counts come from "lens:counts"; its speed is known, its accuracy
// is not: it has written one text.
export class LiveLane {
  constructor(told, others) {
    Object.assign(this, { told, others });
  }

  colour() {
    const style = getComputedStyle(document.body);
    const name = familyColour(this.told.family);
    return (style.getPropertyValue(name) || style.getPropertyValue("--lens-mars")).trim();
  }

  // Its place along a measure, or null if that is not known yet.
  place(measure) {
    const { counts } = this.told;
    if (!counts?.passes) return null;
    if (measure === "tokens_per_forward") return counts.tokensPerForward || null;
    if (measure === "tokens_per_second") return counts.tokensPerSecond || null;
    const baseline = this.others.find(({ family }) => family === "ar")?.counts?.tokensPerSecond;
    return baseline && counts.tokensPerSecond ? counts.tokensPerSecond / baseline : null;
  }

  // True if the figure has its model, or compares more than the seconds of one model.
  belongs({ models }) {
    return !models || models.some((name) => name.split(" (")[0] === this.told.checkpoint);
  }

  get name() {
    const decoder = decoderOf(this.told.decoder).title ?? plainWords(this.told.decoder);
    return `${String(this.told.lane).toUpperCase()}: ${this.told.checkpoint}, ${decoder}`;
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

// The list below the figure, which says the same in words.
export class LiveList {
  constructor(onChange) {
    this.root = make("section", "trade-live");
    this.root.hidden = true;
    this.list = make("ul");
    const note = "One text, written now on this machine, alone: its speed is known, its accuracy is not.";
    put(this.root, make("h3", "", "Now in Compare"), this.list, make("p", "trade-small", note));
    this.onChange = onChange;
    document.addEventListener("lens:counts", () => this.soon());
  }

  get lanes() {
    const told = [...keeper.live.values()];
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
        const other = lane.belongs(live) ? "" : "; not drawn: the figure shows another model";
        return put(item, make("span", "trade-dash"), make("span", "", `${lane.sentence(live.measure)}${other}`));
      }),
    );
  }
}
