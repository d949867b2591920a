// Above the tabs: how the page looks, the keys, and the link to the view.

import { openAddress } from "./address.js";
import { announce, button, keep, keptValue, make, openTab, ours, put, status } from "./dom.js";
import { keeper } from "./keeper.js";
import { mountShortcuts } from "./shortcuts.js";

// The looks of the page: light or dark, and large type with high contrast for a projector. The browser remembers what a
// person chose; until then its own preference decides. "lens:looks" says that it has changed.

const LOOKS = "mars-lens:looks";

function mountLooks(lights, projects) {
  const before = keptValue(LOOKS) ?? {}; // storage may hold anything
  const chosen = { projector: before.projector === true };
  if (typeof before.dark === "boolean") chosen.dark = before.dark;
  const body = document.body.classList;
  let looks = "";
  const apply = () => {
    const { dark = body.contains("dark"), projector } = chosen;
    if (dark !== body.contains("dark")) body.toggle("dark", dark);
    document.documentElement.classList.toggle("lens-projector", projector);
    lights.textContent = dark ? "Light" : "Dark";
    projects.setAttribute("aria-pressed", String(projector));
    const now = `${dark} ${projector}`;
    if (now !== looks) announce("lens:looks");
    looks = now;
  };
  const choose = (change) => {
    Object.assign(chosen, change);
    apply();
    keep(LOOKS, JSON.stringify(chosen));
  };
  lights.addEventListener("click", () => choose({ dark: !body.contains("dark") }));
  projects.addEventListener("click", () => choose({ projector: !chosen.projector }));
  // Gradio sets the class too, when it starts and when the system's preference changes.
  new MutationObserver(apply).observe(document.body, { attributeFilter: ["class"] });
  apply();
}

// "Copy link". Where a page may not reach the clipboard, as over plain http, the link is shown selected. On a projector
// its QR code is shown too: a picture that the server draws at the address `codes`, if there is one.

const MOST_SHOWN = 40; // characters of a value in a sentence
const SAID_FOR = 6_000; // milliseconds

class LinkButton {
  constructor(opener, place, address, codes) {
    Object.assign(this, { address, codes });
    this.said = make("span", "lens-link-said", "", { role: "status" });
    const field = { type: "text", readonly: "", hidden: "", "aria-label": "Link to this view" };
    this.field = make("input", "lens-link-field", "", field);
    this.image = make("img", "", "", { alt: "QR code of this link", loading: "lazy" }); // none is asked for unseen
    this.code = put(button("lens-code", "", () => (this.code.hidden = true), { title: "Hide" }), this.image);
    this.code.hidden = true;
    this.image.addEventListener("error", () => (this.code.hidden = true));
    put(place, put(make("div", "lens-row lens-link-row"), this.said, this.code), this.field);
    opener.addEventListener("click", () => this.copy());
    opener.hidden = location.protocol === "file:"; // an address that nobody else can open
  }

  // Whether a finished run is in view that was made on this page.
  get hasRun() {
    const { tab, views } = this.address;
    const { run, state } = document.querySelector(".lens-stage")?.dataset ?? {};
    const over = state === "done" || state === "stopped";
    return keeper.runs.has({ compare: over && run, step: views.step?.run }[tab]);
  }

  async copy() {
    const { link, left } = this.address;
    const without = left.length ? `, without the ${left.join(", ")}: too long for an address` : "";
    const goesOn = document.querySelector("#stage .lens-earlier");
    const held = goesOn ? "settings and the last question, not the conversation" : "settings, not this run";
    const limits = this.address.tab === "compare" ? `It holds the ${held}.` : "It opens in this browser only.";
    await this.give(link, `${without}.${this.hasRun ? ` ${limits}` : ""}`);
  }

  async give(link, more) {
    const copied = await navigator.clipboard?.writeText(link).then(() => true, () => false) ?? false;
    this.field.hidden = copied;
    this.code.hidden = !this.codes;
    if (this.codes) this.image.src = ours(`${this.codes}?${new URLSearchParams({ link })}`);
    clearTimeout(this.timer);
    this.said.textContent = `${copied ? "Link copied" : "Copy this link yourself"}${more}`;
    if (copied) this.timer = setTimeout(() => (this.said.textContent = ""), SAID_FOR);
    if (copied) return;
    this.field.value = link;
    this.field.focus();
    this.field.select();
  }
}

// The refused parts of the address in one sentence, which a button closes; returns what adds [name, value] pairs.
function refusalsIn(place) {
  let refused = new Map();
  const text = make("span");
  const close = button("lens-tool", "×", () => show(new Map()), { "aria-label": "Dismiss this note" });
  const root = put(status("lens-refused"), text, close);
  const brief = (said) => (said.length > MOST_SHOWN ? `${said.slice(0, MOST_SHOWN - 1)}…` : said);
  const show = (pairs) => {
    refused = pairs;
    const named = [...refused].map(([name, value]) => `${brief(name)}=${brief(String(value ?? ""))}`).join(", ");
    text.textContent = named && `This app cannot restore part of the link: ${named}. The rest is shown.`;
    root.hidden = !named;
  };
  place.append(root);
  show(refused);
  return (pairs) => show(new Map([...refused, ...pairs]));
}

// The value is what Python says of the address, as SettingsInAddress.hear wants it.
export function mountMasthead({ element, props, watch, submit }) {
  const bar = element.querySelector(".lens-masthead");
  const notes = element.querySelector(".lens-notes");
  mountLooks(bar.querySelector(".lens-theme"), bar.querySelector(".lens-projecting"));
  mountShortcuts(bar.querySelector(".lens-keys"), notes);
  const address = openAddress(props.tabs, refusalsIn(notes), () => submit());
  new LinkButton(bar.querySelector(".lens-link"), notes, address, props.codes);
  const hear = () => {
    if (!props.value) return;
    address.settings.hear(JSON.parse(props.value));
    document.documentElement.classList.add("lens-begun");
  };
  hear();
  watch("value", hear);
  // Gradio's own event tells of keys in the prompt only, not of what is pasted or dropped.
  document.addEventListener("input", ({ target }) => {
    if (!target.matches("#prompt textarea")) return;
    address.settings.give("prompt", target.value);
    announce("lens:prompt", target.value);
  });
  whenTabsCome((tabs) => {
    const look = () => address.opened(tabs.querySelector("[role=tab][aria-selected=true]")?.dataset.tabId);
    if (address.tab === props.tabs[0]) look(); // which a reader may have left already
    else openTab(address.tab);
    new MutationObserver(look).observe(tabs, { subtree: true, attributeFilter: ["aria-selected"] });
  });
}

// The tabs come after the masthead. Their buttons say which is open.
function whenTabsCome(act) {
  const seek = new MutationObserver(() => {
    const tabs = document.querySelector("#tabs > .tab-wrapper");
    if (!tabs?.querySelector("[role=tab]")) return;
    seek.disconnect();
    act(tabs);
  });
  seek.observe(document.body, { childList: true, subtree: true });
}
