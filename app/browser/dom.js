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

function decimals(value, places) {
  return value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
}

function thresholdName(threshold) {
  return threshold === null ? "one token per pass" : `τ ${threshold.toFixed(2)}`;
}
