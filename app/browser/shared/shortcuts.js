// Keys for everything that is done often, and the dialog that lists them. A key acts only where its control is on view,
// and never while somebody types. They can be switched off, for those whose software types for them.

import { button, checkbox, keep, kept, make, put } from "./dom.js";

const KEYS_OFF = "mars-lens:keys-off";
const FIELDS = "textarea, select, [contenteditable], dialog, input:not([type=range], [type=radio], [type=checkbox])";

const TAB = "#tabs > .tab-wrapper [role=tab]";

// [keys, how they are written, what they do, the action]. Those without an action are obeyed where they belong.
const SHORTCUTS = {
  "Everywhere": [
    [["?"], "?", "Show these keys", (help) => help()],
    [[..."123456789"], "1 – 5", "Open a tab, counted from the left", (_, key) => press(`${TAB}:nth-of-type(${key})`)],
    [["t"], "t", "Light or dark", () => press(".lens-theme")],
    [["p"], "p", "Projector: large type, high contrast", () => press(".lens-projecting")],
    [["l"], "l", "Copy the link to this view", () => press(".lens-link")],
  ],
  "Step through": [
    [[], "← →", "One pass back, one pass on"],
    [[], "Home End", "First pass, last pass"],
    [[], "Space", "Play or pause"],
  ],
  "Compare": [
    [["r"], "r", "Run, or stop the run", () => press("#run, .lens-live-run") || press("#stop, .lens-live-stop")],
    [["n"], "n", "New problem, where the page has that button", () => press("#new-problem")],
    [["-"], "−", "Threshold τ down: more tokens per pass", () => nudge(-1)],
    [["+", "="], "+", "Threshold τ up: fewer tokens per pass", () => nudge(1)],
    [["g"], "g", "Details: scores, drafts and rejected proposals", () => press("#stage .lens-switch input")],
    [[], "← → Home End", "Walk through the tokens of a text"],
    [[], "Enter", "Step through the run from this token"],
    [[], "b", "Choose another token here, from which all lanes go on"],
    [[], "Esc", "Close a card"],
  ],
};

function shown(selector) {
  return [...document.querySelectorAll(selector)].find((node) => !node.disabled && node.checkVisibility());
}

function press(selector) {
  const control = shown(selector);
  control?.click();
  return Boolean(control);
}

function nudge(steps) {
  const range = shown("#threshold input[type=range], .lens-live-tau");
  if (!range) return false;
  range.valueAsNumber += steps * range.step;
  range.dispatchEvent(new Event("input", { bubbles: true }));
  return true;
}

export function mountShortcuts(opener, place) {
  const root = make("dialog", "lens-help", "", { "aria-labelledby": "lens-help-title" });
  const title = make("h2", "", "Keys", { id: "lens-help-title" });
  const close = button("lens-tool", "Close", () => root.close());
  const lists = Object.entries(SHORTCUTS).map(([name, entries]) => keyList(name, entries));
  // It must be possible to turn single letters off as keys.
  const on = checkbox(kept(KEYS_OFF) !== "true", () => keep(KEYS_OFF, String(!on.checked)));
  const label = make("label", "lens-row lens-help-switch");
  put(label, on, "Use single letters, digits and signs as shortcuts");
  put(root, put(make("header"), title, close), put(make("div", "lens-help-lists"), ...lists), label);
  root.addEventListener("click", (event) => event.target === root && root.close());
  place.append(root);
  const open = () => {
    root.showModal(); // Escape closes it and the focus returns: the browser sees to both
    return true;
  };
  opener.addEventListener("click", open);
  document.addEventListener("keydown", (event) => {
    const held = event.repeat && !["+", "=", "-"].includes(event.key); // r would run and stop in turn
    const busy = event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing;
    if (held || busy || !on.checked || root.open || event.target.closest?.(FIELDS)) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const [, , , act] = Object.values(SHORTCUTS).flat().find(([keys]) => keys.includes(key)) ?? [];
    if (act?.(open, key)) event.preventDefault();
  });
}

function keyList(name, entries) {
  const list = make("dl");
  for (const [, written, does] of entries) {
    const keys = make("dt");
    written.split(" ").forEach((key) => keys.append(key === "–" ? " – " : make("kbd", "", key)));
    put(list, put(make("div"), keys, make("dd", "", does)));
  }
  return put(make("section"), make("h3", "", name), list);
}
