// One figure: drawn anew where it stands, so that the zoom stays; as light or dark as the page; as high as it needs.

import { ours } from "../shared/dom.js";

const PHONE = 640; // pixels; below it a finger on the figure scrolls the page
const MODEBAR = 26; // pixels; on a telephone it is always there, and must not lie on titles
const ROUNDS = 4;
const FITS = 2; // pixels
const SETTLED = 150; // milliseconds after the last change of the width
// The first would send the figure to a server of somebody else's.
const BUTTONS_LEFT_OUT = ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d"];
const QUIET = { displaylogo: false, responsive: false, plotlyServerURL: "", modeBarButtonsToRemove: BUTTONS_LEFT_OUT };

export class TradePlot {
  // `onPick` hears the id of the run whose mark was clicked.
  constructor(root, plotly, templates, onPick) {
    Object.assign(this, { root, plotly, templates, onPick });
    this.figure = null;
    this.work = Promise.resolve();
    document.addEventListener("lens:looks", () => this.again());
    new ResizeObserver(() => this.resize()).observe(root);
  }

  // Figures are drawn one after the other, and only the last that was asked for.
  show(figure) {
    this.figure = figure;
    const draw = () => (this.figure === figure ? this.draw() : undefined);
    this.work = this.work.then(draw).catch((error) => console.error(error));
    return this.work;
  }

  again() {
    if (this.figure && this.root.clientWidth) this.show({ ...this.figure });
  }

  resize() {
    const width = this.root.clientWidth;
    if (!width || width === this.root._fullLayout?.width) return;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.again(), SETTLED);
  }

  async draw() {
    const width = this.root.clientWidth;
    const narrow = width < PHONE;
    const type = Number(getComputedStyle(document.documentElement).getPropertyValue("--lens-type")) || 1;
    const template = scaled(this.templates[document.body.classList.contains("dark") ? "dark" : "light"], type);
    const layout = { ...scaled(this.figure.layout, type), template, width };
    layout.paper_bgcolor = getComputedStyle(document.body).backgroundColor; // of a picture that is saved
    if (narrow) Object.assign(layout, { dragmode: false, margin: { ...layout.margin, t: layout.margin.t + MODEBAR } });
    const data = narrow ? this.figure.data.map(unnamed) : this.figure.data;
    // Another figure begins afresh: the room that this one's legend took may be more than all that the other has.
    if (this.root.layout && this.root.layout.uirevision !== layout.uirevision) this.plotly.purge(this.root);
    await this.plotly.react(this.root, data, layout, QUIET);
    this.root.removeAllListeners("plotly_click");
    this.root.on("plotly_click", ({ points }) => {
      const found = points.map(({ customdata }) => customdata).find((each) => typeof each === "string" && each);
      if (found) this.onPick(found);
    });
    await this.fit();
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
}

// A series without the names of its marks, for which a phone has no room.
const unnamed = (trace) =>
  trace.customdata && trace.mode ? { ...trace, mode: trace.mode.replace("+text", "") } : trace;

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
