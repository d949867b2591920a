// Elements from plain values, files, and what the browser keeps. Text goes in by textContent only: what people and models
// write is never markup.

export function make(tag, className = "", text = "") {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

// A button that does `act` when it is pressed.
export function button(className, text, act) {
  const node = make("button", className, text);
  node.type = "button";
  node.addEventListener("click", act);
  return node;
}

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

export function clear(node) {
  node.replaceChildren();
  return node;
}

// An address of the app's own, also where a proxy shows the page below a path.
export function ours(path) {
  return `${String(window.gradio_config?.root ?? ".").replace(/\/+$/, "")}/${path}`;
}

// A file that the page itself makes, given to the reader.
export function offerFile(text, type, name) {
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// A value that the browser keeps over a reload, by name; null is forgotten. Storage may be full or forbidden: then it lasts as
// long as the page, and nothing else changes.
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
