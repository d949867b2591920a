// Which token is looked at: under the pointer, tapped, or reached with the arrow keys.

class Pointer {
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
    const view = [...this.stage.lanes.values()].find((lane) => lane.text.contains(event.target));
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
