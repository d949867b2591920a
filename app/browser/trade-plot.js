// One figure: drawn anew where it stands, so that the zoom stays; as light or dark as the page; as high as it needs.

const PHONE = 640; // pixels; below it a finger on the figure scrolls the page
const MODEBAR = 26; // pixels; on a telephone it is always there, and must not lie on titles
const ROUNDS = 4;
const FITS = 2; // pixels
// The first would send the figure to a server of somebody else's; pictures are made by a button of ours.
const BUTTONS_LEFT_OUT = ["sendChartToCloud", "toImage", "select2d", "lasso2d", "autoScale2d"];
const QUIET = { displaylogo: false, responsive: false, plotlyServerURL: "", modeBarButtonsToRemove: BUTTONS_LEFT_OUT };

class TradePlot {
  // `onPick` hears the id of the run whose mark was clicked, `onSeen` that the figure is on screen again.
  constructor(root, library, templates, { onPick, onSeen }) {
    Object.assign(this, { root, library, templates, onPick, onSeen });
    this.lanes = [];
    this.figure = null;
    this.work = Promise.resolve();
    new MutationObserver(() => this.repaint()).observe(document.body, { attributeFilter: ["class"] });
    document.addEventListener("lens:looks", () => this.repaint());
    new ResizeObserver(() => this.resize()).observe(root);
  }

  // How the page looks: its ground, and how much larger type is (projector.css).
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
    await this.library.react(this.root, this.figure.data, layout, QUIET);
    if (!this.heard) {
      this.heard = true;
      this.root.on("plotly_click", ({ points }) => this.clicked(points));
    }
    await this.fit();
  }

  // The legend below takes more lines on a narrow page, and would scroll: give it and the plot area what they need.
  async fit() {
    for (let round = 0; round < ROUNDS; round += 1) {
      const { _size: size, legend, height } = this.root._fullLayout;
      const needed = legend?._height ?? 0;
      const missing = this.figure.layout.meta.plot_height - size.h + Math.max(0, needed - (legend?._effHeight ?? 0));
      if (Math.abs(missing) < FITS) return;
      await this.library.relayout(this.root, { height: height + missing, "legend.maxheight": Math.max(needed, 30) });
    }
  }

  clicked(points) {
    const found = points.map(({ customdata }) => customdata).find((id) => typeof id === "string" && id);
    if (found) this.onPick(found);
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

  // The lanes of Compare, where they belong along x. How right they are nobody knows, so that each is a line.
  follow(lanes) {
    this.lanes = lanes;
    if (!this.own || !this.root.clientWidth) return;
    this.next(() => this.library.relayout(this.root, this.marked()));
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
        if (x === null) return;
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
    const packed = await this.library.toImage({ data: this.root.data, layout }, options);
    return Uint8Array.from(atob(packed), (sign) => sign.charCodeAt(0));
  }
}

// The same with every size of type times `factor`.
function scaled(value, factor) {
  if (factor === 1 || typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => scaled(item, factor));
  const change = ([name, item]) => {
    const isFont = name.endsWith("font") && typeof item?.size === "number";
    return [name, isFont ? { ...item, size: item.size * factor } : scaled(item, factor)];
  };
  return Object.fromEntries(Object.entries(value).map(change));
}
