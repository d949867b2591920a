// Which token is looked at: under the pointer, tapped, or reached with the arrow keys.

import { tooltip } from "../shared/dom.js";

export class Pointer {
  constructor(stage, card) {
    this.stage = stage;
    this.card = card;
    this.pinned = false;
    this.inspected = null;
    const { root } = stage;
    whenHovered(root, (target, moved) => this.hover(target, moved));
    root.addEventListener("mousedown", (event) => this.press(event));
    root.addEventListener("click", (event) => this.show(event.target, true));
    root.addEventListener("focusin", (event) => this.show(event.target, true));
    root.addEventListener("focusout", (event) => {
      const row = rowOf(event.target);
      if (row && row !== rowOf(event.relatedTarget)) row.setAttribute("aria-hidden", "true");
    });
    root.addEventListener("keydown", (event) => this.walk(event));
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.leave();
    });
  }

  hover(target, moved) {
    const here = target instanceof Element && target.closest(".lens-card, .chosen");
    this.show(moved || here ? target : null, false);
  }

  // A card opened by a tap or by the keyboard stays until another takes its place; one opened by hovering goes.
  show(target, stays) {
    if (target instanceof Element && target.closest(".lens-card")) return;
    const place = target instanceof Element ? target.closest(".lens-token, .lens-ghost") : null;
    if (place && this.stage.facts.has(place)) {
      if (stays) this.inspect(place);
      const { lane, message } = this.stage.facts.get(place);
      if (stays) this.stage.look({ lane: lane.key, number: message.number });
      if (stays || place !== this.card.token) this.card.open(place, this.stage.facts.get(place));
      this.pinned = stays || (this.pinned && place === this.card.token);
    } else if (stays || !this.pinned) {
      this.leave();
    }
  }

  leave() {
    this.card.close();
    this.pinned = false;
  }

  // The pass that is looked at shows all that it rejected.
  inspect(place) {
    const row = place.closest(".lens-ghosts");
    const group = row ? row.previousElementSibling : place.closest(".lens-pass");
    if (group === this.inspected) return;
    this.inspected?.classList.remove("inspected");
    group.classList.add("inspected");
    this.inspected = group;
  }

  // Ghosts are hidden from screen readers, so a press does not move the focus there; the arrow keys do, and show them.
  press(event) {
    if (event.target instanceof Element && event.target.closest(".lens-ghost")) event.preventDefault();
  }

  walk(event) {
    const view = this.stage.views.find((lane) => lane.text.contains(event.target));
    if (!view) return undefined;
    if (event.key === "Enter") return this.card.stepThrough();
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    const { places } = view;
    if (step === undefined || !places.length) return undefined;
    const last = places.length - 1;
    const here = places.indexOf(event.target);
    const from = here >= 0 ? here : step === 1 ? -1 : last + 1;
    const next = Math.min(last, Math.max(0, from + step));
    event.preventDefault();
    rowOf(places[next])?.removeAttribute("aria-hidden");
    return places[next].focus();
  }
}

function rowOf(node) {
  return node instanceof Element ? node.closest(".lens-ghosts") : null;
}

// The meaning of a counter, beside it: by hovering, by focus, by tapping. Escape takes it away.
export class Tip {
  // `tips` holds what each button has to say.
  constructor(host, tips) {
    this.tips = tips;
    this.root = tooltip("p", "lens-tip");
    this.button = null;
    this.stays = false;
    whenHovered(host, (target, moved) => this.hover(target, moved));
    host.addEventListener("focusin", (event) => this.hold(event.target));
    host.addEventListener("click", (event) => this.hold(event.target));
    host.addEventListener("focusout", () => this.close());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
  }

  buttonOf(target) {
    const found = target instanceof Element ? target.closest(".lens-counter")?.querySelector(".lens-why") : null;
    return found && this.tips.has(found) ? found : null;
  }

  // A tip opened by focus or by a tap stays; one opened by hovering goes with the pointer, unless that is on the tip.
  hover(target, moved) {
    if (target instanceof Element && target.closest(".lens-tip")) return;
    const button = this.buttonOf(target);
    if (button && (moved || button === this.button)) this.open(button, this.stays && button === this.button);
    else if (!this.stays) this.close();
  }

  hold(target) {
    const button = this.buttonOf(target);
    if (button) this.open(button, true);
    else if (!(target instanceof Element && target.closest(".lens-tip"))) this.close();
  }

  open(button, stays) {
    if (button !== this.button) {
      this.close();
      this.button = button;
      this.root.textContent = this.tips.get(button)();
      this.root.hidden = false;
      button.setAttribute("aria-describedby", this.root.id);
      const strip = button.closest(".lens-strip");
      strip.append(this.root);
      const spot = button.closest(".lens-counter");
      const most = strip.clientWidth - this.root.offsetWidth;
      this.root.style.left = `${Math.max(0, Math.min(spot.offsetLeft, most))}px`;
      this.root.style.top = `${spot.offsetTop + spot.offsetHeight + 4}px`;
    }
    this.stays = stays;
  }

  close() {
    if (!this.button) return;
    this.button.removeAttribute("aria-describedby");
    this.button = null;
    this.stays = false;
    this.root.hidden = true;
  }

  // The text of the tip follows the counters while they run.
  refresh() {
    const text = this.button ? this.tips.get(this.button)() : "";
    if (text && text !== this.root.textContent) this.root.textContent = text;
  }
}

// Tells `over` what the pointer is on, null once it has left, and whether it was moved there. The page may as well have
// scrolled, or text have grown, under a pointer that rests: nothing should open for that.
function whenHovered(host, over) {
  watchPointer();
  let due = false; // it rests on something that it was not moved to
  host.addEventListener("mouseover", (event) => {
    due = spotOf(event) === pointerAt;
    over(event.target, !due);
  });
  host.addEventListener("mousemove", (event) => {
    if (due && spotOf(event) !== pointerAt) {
      due = false;
      over(event.target, true);
    }
  });
  host.addEventListener("mouseleave", () => over(null, false));
}

let pointerAt = null; // where the pointer was moved to last

function watchPointer() {
  if (pointerAt !== null) return;
  pointerAt = "";
  document.addEventListener("mousemove", (event) => {
    pointerAt = spotOf(event); // after the listeners above, which are further inside
  });
}

function spotOf({ clientX, clientY }) {
  return `${clientX},${clientY}`;
}
