// Elements from plain values, files, and what the browser keeps. Text goes in by textContent only: what people and
// models write is never markup.

export function make(tag, className = "", text = "", attributes = {}) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

export function button(className, text, act, attributes = {}) {
  const node = make("button", className, text, { type: "button", ...attributes });
  node.addEventListener("click", act);
  return node;
}

export function checkbox(checked, act, attributes = {}) {
  const node = make("input", "", "", { type: "checkbox", ...attributes });
  node.checked = checked;
  node.addEventListener("change", act);
  return node;
}

// A line that screen readers say when it changes.
export const status = (className, text = "") => make("p", className, text, { role: "status" });

// Whether the person does not want motion.
export const calm = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

export const bringIntoView = (node) => node.scrollIntoView({ block: "nearest", behavior: calm() ? "auto" : "smooth" });

// Give the focus to the first that is there, as what had it goes or is far below; nothing scrolls.
export const handFocus = (selector) => document.querySelector(selector)?.focus({ preventScroll: true });

export const announce = (event, detail) => document.dispatchEvent(new CustomEvent(event, { detail }));

// Open the tab of this name; Gradio made its button.
export const openTab = (name) => document.getElementById(`tab-${name}-button`)?.click();

export function put(parent, ...children) {
  parent.append(...children);
  return parent;
}

export function shape(name, attributes, text = "") {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  return node;
}

// An address of the app's own, relative to the page: a proxy may show it by another name and below a path.
export const ours = (path) => new URL(path, document.baseURI).href;

// A file that the page itself makes, given to the reader.
export function offerFile(text, type, name) {
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// A value that the browser keeps over a reload, by name; null is forgotten. Storage may be full or forbidden: then it
// lasts as long as the page, and nothing else changes.
export function keep(name, value) {
  try {
    localStorage.removeItem(name);
    if (value !== null) localStorage.setItem(name, value);
  } catch {
    // There is no place to keep it.
  }
}

export function kept(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

// The same as a value in JSON; null where there is none.
export function keptValue(name) {
  try {
    return JSON.parse(kept(name));
  } catch {
    return null;
  }
}
