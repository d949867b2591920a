// Above the tabs: how the page looks, the keys, and the link to the view.

import { openAddress } from "./address.js";
import { announce, button, keep, keptValue, make, openTab, ours, put, status } from "./dom.js";
import { keeper } from "./keeper.js";
import { Shortcuts } from "./shortcuts.js";

// The looks of the page: light or dark, and large type with high contrast for a projector. The browser remembers what a
// person chose; until then its own preference decides. "lens:looks" says that it has changed.

const LOOKS = "mars-lens:looks";

class Modes {
  constructor(lights, projector) {
    this.lights = lights;
    this.projector = projector;
    const before = keptValue(LOOKS) ?? {}; // storage may hold anything
    this.chosen = { projector: before.projector === true };
    if (typeof before.dark === "boolean") this.chosen.dark = before.dark;
    lights.addEventListener("click", () => this.choose({ dark: !this.dark }));
    projector.addEventListener("click", () => this.choose({ projector: !this.chosen.projector }));
    // Gradio sets the class too, when it starts and when the system's preference changes.
    new MutationObserver(() => this.apply()).observe(document.body, { attributeFilter: ["class"] });
    this.apply();
  }

  get dark() {
    return document.body.classList.contains("dark");
  }

  choose(change) {
    Object.assign(this.chosen, change);
    this.apply();
    keep(LOOKS, JSON.stringify(this.chosen));
  }

  apply() {
    const { dark = this.dark, projector = false } = this.chosen;
    if (dark !== this.dark) document.body.classList.toggle("dark", dark);
    document.documentElement.classList.toggle("lens-projector", projector);
    this.lights.textContent = dark ? "Light" : "Dark";
    this.projector.setAttribute("aria-pressed", String(projector));
    const looks = `${dark} ${projector}`;
    if (looks === this.looks) return;
    this.looks = looks;
    announce("lens:looks", { dark, projector });
  }
}

// "Copy link". Where a page may not reach the clipboard, as over plain http, the link is shown selected. On a projector
// its QR code is shown too: a picture that the server draws at the address `codes`, if there is one.

const MOST_SHOWN = 40; // characters of a value in a sentence
const SAID_FOR = 6_000; // milliseconds

class LinkButton {
  constructor(opener, place, address, codes) {
    Object.assign(this, { address, codes });
    this.said = make("span", "lens-link-said", "", { role: "status" });
    this.field = make("input", "lens-link-field", "", { "aria-label": "Link to this view" });
    Object.assign(this.field, { type: "text", readOnly: true, hidden: true });
    this.image = make("img", "", "", { alt: "QR code of this link", loading: "lazy" }); // none is asked for unseen
    this.code = put(button("lens-code", "", () => (this.code.hidden = true), { title: "Hide" }), this.image);
    this.code.hidden = true;
    this.image.addEventListener("error", () => (this.code.hidden = true));
    put(place, put(make("div", "lens-row lens-link-row"), this.said, this.code), this.field);
    opener.addEventListener("click", () => this.copy());
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
    const held = document.querySelector("#stage .lens-earlier") ? "settings and the last question, not the conversation" : "settings, not this run";
    const limits = this.address.tab === "compare" ? `It holds the ${held}.` : "It opens in this browser only.";
    await this.give(link, `${without}.${this.hasRun ? ` ${limits}` : ""}`);
  }

  async give(link, more) {
    const copied = await navigator.clipboard?.writeText(link).then(() => true, () => false) ?? false;
    this.field.hidden = copied;
    this.code.hidden = !this.codes;
    if (this.codes) this.image.src = ours(`${this.codes}?${new URLSearchParams({ link })}`);
    this.say(`${copied ? "Link copied" : "Copy this link yourself"}${more}`, copied);
    if (copied) return;
    this.field.value = link;
    this.field.focus();
    this.field.select();
  }

  say(sentence, goes) {
    clearTimeout(this.timer);
    this.said.textContent = sentence;
    if (goes) this.timer = setTimeout(() => (this.said.textContent = ""), SAID_FOR);
  }
}

// The parts of the address that were refused, in one sentence; its button closes it.
class Refusals {
  constructor(place) {
    this.pairs = new Map();
    this.text = make("span");
    const close = button("lens-tool", "×", () => this.show(new Map()), { "aria-label": "Dismiss this note" });
    this.root = put(status("lens-refused"), this.text, close);
    place.append(this.root);
    this.show(this.pairs);
  }

  show(pairs) {
    this.pairs = pairs;
    const brief = (text) => (text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN - 1)}…` : text);
    const named = [...pairs].map(([name, value]) => `${brief(name)}=${brief(String(value ?? ""))}`).join(", ");
    this.text.textContent = named && `This app cannot restore part of the link: ${named}. The rest is shown.`;
    this.root.hidden = !named;
  }
}

// The value is what Python says of the address, as SettingsInAddress.hear wants it.
export function mountMasthead({ element, props, watch, submit }) {
  const bar = element.querySelector(".lens-masthead");
  const notes = element.querySelector(".lens-notes");
  new Modes(bar.querySelector(".lens-theme"), bar.querySelector(".lens-projecting"));
  new Shortcuts(bar.querySelector(".lens-keys"), notes);
  const refusals = new Refusals(notes);
  const address = openAddress(props.tabs, (pairs) => refusals.show(new Map([...refusals.pairs, ...pairs])), () => submit());
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
