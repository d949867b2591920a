// The small parts of Compare: lines of text, the slider, the panel of settings.

import { keep, kept } from "../shared/dom.js";

// A line of text that Python sets.
export function mountLine({ element, props, watch }) {
  const line = element.querySelector(".lens-plain");
  const show = () => (line.textContent = props.value ?? "");
  show();
  watch("value", show);
}

const CALM = 300; // milliseconds

// Many moves at once can reach Gradio out of order, or be dropped while one is under way: when the slider has come to
// rest, its position is sent once more.
export function keepLast(root, selector) {
  let waiting = 0;
  root.addEventListener("input", (event) => {
    if (!event.target.matches?.(selector) || event.detail === keepLast) return;
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      event.target.dispatchEvent(new CustomEvent("input", { bubbles: true, detail: keepLast }));
    }, CALM);
  });
}

const HANDED = 60; // milliseconds: Stop is enabled a moment after Run is disabled, and Settings always is

// A button that is pressed and then disabled hands the focus to the first one of its row that is not, by then.
function handOn() {
  let last = null;
  document.addEventListener("focusin", ({ target }) => (last = target));
  const seen = (node) => node.checkVisibility({ visibilityProperty: true }); // Stop is hidden before it is disabled
  document.addEventListener("focusout", ({ target }) => seen(target) && (last = null));
  new MutationObserver((changes) => {
    const gone = changes.find(({ target }) => target === last && target.disabled)?.target;
    const row = [...(gone?.closest(".lens-go")?.querySelectorAll("button") ?? [])];
    if (!row.length) return;
    setTimeout(() => {
      if (![document.body, gone].includes(document.activeElement)) return; // somebody has gone on
      row.find((other) => !other.disabled && seen(other))?.focus({ preventScroll: true });
    }, HANDED);
  }).observe(document.body, { subtree: true, attributeFilter: ["disabled"] });
}

// The start of an answer belongs to its prompt: another prompt leaves it, unless an address gives both.
const asked = { prompt: null, start: "" };

export function answerStart(prompt, start) {
  const kept = prompt === asked.prompt || start !== asked.start ? start : "";
  Object.assign(asked, { prompt, start: kept });
  return kept;
}

// The button of the panel of settings, which the browser remembers open or closed; and Enter, which runs the prompt.
const SETTINGS_KEY = "mars-lens:settings";

export function mountSettings({ element }) {
  const opener = element.querySelector(".lens-settings-button");
  const page = document.documentElement.classList;
  const set = (open) => {
    page.toggle("lens-settings-open", open);
    opener.setAttribute("aria-expanded", String(open));
  };
  opener.addEventListener("click", () => {
    const open = !page.contains("lens-settings-open");
    keep(SETTINGS_KEY, open ? "open" : null);
    set(open);
    if (open) window.scrollTo(0, 0); // the panel is there
  });
  set(kept(SETTINGS_KEY) === "open");
  document.addEventListener("keydown", runOnEnter, { capture: true });
  keepLast(document, "#threshold input");
  handOn();
}

// Gradio's own text box breaks the line at Enter and submits at Shift+Enter: the other way round than elsewhere.
function runOnEnter(event) {
  if (event.key !== "Enter" || event.isComposing || !event.target.matches?.("#prompt textarea")) return;
  event.stopPropagation();
  if (event.shiftKey) return;
  event.preventDefault();
  document.querySelector("#run")?.click();
}
