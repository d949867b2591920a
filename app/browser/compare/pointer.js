// Which token is looked at: under the pointer, tapped, or reached with the arrow keys.

export class Pointer {
  constructor(stage, card) {
    Object.assign(this, { stage, card, inspected: null });
    const { root } = stage;
    // The page may scroll, or text grow, under a pointer that rests: nothing should open for that.
    root.addEventListener("mousemove", ({ target, movementX, movementY }) => {
      if (movementX || movementY) this.show(target, false);
    });
    root.addEventListener("mouseleave", () => this.show(null, false));
    // Ghosts are hidden from screen readers, so a press does not move the focus there; arrow keys do, and show them.
    root.addEventListener("mousedown", (event) => event.target.closest?.(".lens-ghost") && event.preventDefault());
    root.addEventListener("click", ({ target }) => this.show(target, true));
    root.addEventListener("focusin", ({ target }) => this.show(target, true));
    root.addEventListener("focusout", ({ target, relatedTarget }) => {
      const row = rowOf(target);
      if (row && row !== rowOf(relatedTarget)) row.setAttribute("aria-hidden", "true");
    });
    root.addEventListener("keydown", (event) => this.walk(event));
    document.addEventListener("keydown", ({ key }) => key === "Escape" && this.leave());
  }

  show(target, stays) {
    if (target?.closest?.(".lens-card")) return;
    const place = target?.closest?.(".lens-token, .lens-ghost");
    const fact = place && this.stage.facts.get(place);
    if (fact && stays) {
      this.inspect(place);
      this.stage.look({ lane: fact.lane.key, number: fact.message.number });
    }
    this.card.point(fact && place, stays, () => this.card.show(place, fact), () => this.leave());
  }

  leave() {
    const text = this.card.root.contains(document.activeElement) && this.card.node.closest(".lens-text");
    this.card.close();
    text?.focus?.();
  }

  // The pass that is looked at shows all that it rejected.
  inspect(place) {
    const row = rowOf(place);
    const group = row ? row.previousElementSibling : place.closest(".lens-pass");
    if (group === this.inspected) return;
    this.inspected?.classList.remove("inspected");
    group.classList.add("inspected");
    this.inspected = group;
  }

  walk(event) {
    const view = this.stage.shown.list.find((lane) => lane.text.contains(event.target));
    if (!view || event.altKey || event.ctrlKey || event.metaKey) return undefined; // Alt and ← is the browser's
    if (event.key === "Enter") return this.card.stepThrough();
    if (event.key === "b") {
      event.preventDefault(); // it would be the first letter of the field
      return this.card.root.querySelector("button.lens-alternative, .lens-card-own")?.focus();
    }
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    const { places } = view;
    if (step === undefined || !places.length) return undefined;
    const last = places.length - 1;
    const here = places.indexOf(event.target);
    const from = here >= 0 ? here : step === 1 ? -1 : last + 1;
    const next = places[Math.min(last, Math.max(0, from + step))];
    event.preventDefault();
    rowOf(next)?.removeAttribute("aria-hidden");
    return next.focus();
  }
}

const rowOf = (node) => node?.closest?.(".lens-ghosts") ?? null;
