// Elements from plain values. Text goes in by textContent only: what people and models write is never markup.

function make(tag, className = "", text = "") {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

function put(parent, ...children) {
  parent.append(...children);
  return parent;
}

function shape(name, attributes, text = "") {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  return node;
}

function clear(node) {
  node.replaceChildren();
  return node;
}

// An address of the app's own, also where a proxy shows the page below a path.
function ours(path) {
  return `${String(window.gradio_config?.root ?? ".").replace(/\/+$/, "")}/${path}`;
}

function decimals(value, places) {
  return value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
}

// Cut, not rounded: a score must not look as if it reached a threshold that it does not.
function cut(value, places) {
  return decimals(Math.floor(value * 10 ** places + 1e-9) / 10 ** places, places);
}

function thresholdName(threshold) {
  return threshold === null ? "one token per pass" : `τ ${threshold.toFixed(2)}`;
}
