/* Draws the figures of the report, one after the other; data-state says when all are there. */
"use strict";

const read = (selector) => JSON.parse(document.querySelector(selector).textContent);
const templates = read("#templates");
const dark = matchMedia("(prefers-color-scheme: dark)");
const plots = [...document.querySelectorAll(".plot")];
const config = {
  displaylogo: false,
  responsive: true,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "sendChartToCloud"],
};

const PAPER = 690;

const ground = () => templates[dark.matches ? "dark" : "light"];

/* The legend below takes more lines on a narrow page, and would scroll: give it and the plot area the height they need. */
async function fit(plot) {
  for (let round = 0; round < 4; round += 1) {
    const { _size: size, legend, height } = plot._fullLayout;
    const needed = legend?._height ?? 0;
    const missing = plot.layout.meta.plot_height - size.h + Math.max(0, needed - (legend?._effHeight ?? 0));
    if (Math.abs(missing) < 2) {
      return;
    }
    await Plotly.relayout(plot, { height: height + missing, "legend.maxheight": Math.max(needed, 30) });
  }
}

async function draw(plot) {
  const { data, layout } = read(`script[data-for="${plot.dataset.figure}"]`);
  await Plotly.newPlot(plot, data, { ...layout, template: ground() }, config);
  await fit(plot);
}

/* Light or dark, and as wide as the page, or as a sheet of paper. */
async function paint(template, width) {
  for (const plot of plots) {
    await Plotly.relayout(plot, width ? { template, width } : { template, width: null, autosize: true });
    await fit(plot);
  }
}

async function start() {
  for (const plot of plots) {
    await draw(plot);
    await new Promise(requestAnimationFrame);
  }
  dark.addEventListener("change", () => paint(ground()));
  addEventListener("beforeprint", () => paint(templates.light, PAPER));
  addEventListener("afterprint", () => paint(ground()));
  let width = innerWidth;
  let waiting;
  addEventListener("resize", () => {
    if (innerWidth === width) {
      return;
    }
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(() => plots.forEach(fit), 300);
  });
  document.body.dataset.state = "drawn";
}

start();
