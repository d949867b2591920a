// What a counter means, beside it: by hovering, by focus, by tapping. Escape takes it away.

class Tip {
  // `tips` holds what each button has to say.
  constructor(host, tips) {
    this.tips = tips;
    this.root = make("p", "lens-tip");
    this.root.id = `lens-tip-${Math.random().toString(36).slice(2)}`;
    this.root.setAttribute("role", "tooltip");
    this.root.hidden = true;
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

  // What is said follows the counters while they run.
  refresh() {
    const text = this.button ? this.tips.get(this.button)() : "";
    if (text && text !== this.root.textContent) this.root.textContent = text;
  }
}
