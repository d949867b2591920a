// One figure: drawn anew where it stands, so that the zoom stays; as light or dark as the page; as high as it needs.

const PHONE = 640; // pixels; below it a finger on the figure scrolls the page
const ROUNDS = 4;
const FITS = 2; // pixels
const BUTTONS_LEFT_OUT = ["select2d", "lasso2d", "autoScale2d", "toImage"];

class TradePlot {
  // `onPick` hears the id of the run whose mark was clicked.
  constructor(root, library, templates, onPick) {
    Object.assign(this, { root, library, templates, onPick });
    this.lanes = [];
    this.figure = null;
    this.work = Promise.resolve();
    new MutationObserver(() => this.repaint()).observe(document.body, { attributeFilter: ["class"] });
    new ResizeObserver(() => this.resize()).observe(root);
  }

  get template() {
    return this.templates[document.body.classList.contains("dark") ? "dark" : "light"];
  }

  // Figures are drawn one after the other, and only the last that was asked for.
  show(figure, live) {
    Object.assign(this, { figure, live });
    this.work = this.work.then(() => (this.figure === figure ? this.draw() : undefined));
    return this.work;
  }

  async draw() {
    const narrow = this.root.clientWidth < PHONE;
    const config = { displaylogo: false, responsive: false, modeBarButtonsToRemove: BUTTONS_LEFT_OUT };
    const layout = { ...this.figure.layout, template: this.template, width: this.root.clientWidth };
    if (narrow) layout.dragmode = false;
    const marks = this.marks();
    layout.shapes = [...(layout.shapes ?? []), ...marks.shapes];
    layout.annotations = [...(layout.annotations ?? []), ...marks.annotations];
    this.dark = document.body.classList.contains("dark");
    await this.library.react(this.root, this.figure.data, layout, config);
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
    if (this.figure && this.dark !== document.body.classList.contains("dark")) this.show({ ...this.figure }, this.live);
  }

  resize() {
    const width = this.root.clientWidth;
    if (!this.figure || !width || width === this.root._fullLayout?.width) return;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.show({ ...this.figure }, this.live), 150);
  }

  // The lanes of Compare, where they belong along x. How right they are nobody knows, so that each is a line.
  follow(lanes) {
    this.lanes = lanes;
    if (!this.figure || !this.root._fullLayout || !this.root.clientWidth) return;
    const { shapes = [], annotations = [] } = this.figure.layout;
    const marks = this.marks();
    const update = { shapes: [...shapes, ...marks.shapes], annotations: [...annotations, ...marks.annotations] };
    this.work = this.work.then(() => this.library.relayout(this.root, update));
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
