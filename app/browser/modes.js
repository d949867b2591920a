// How the page looks: light or dark, and large type with high contrast for a projector. The browser remembers what a
// person chose; until then its own preference decides. "lens:looks" says that it has changed.

const LOOKS = "mars-lens:looks";

class Modes {
  constructor(lights, projector) {
    this.lights = lights;
    this.projector = projector;
    this.chosen = Modes.recall();
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
    try {
      localStorage.setItem(LOOKS, JSON.stringify(this.chosen));
    } catch {
      // Without storage the choice lasts as long as the page.
    }
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
    document.dispatchEvent(new CustomEvent("lens:looks", { detail: { dark, projector } }));
  }

  // What was chosen: booleans only, whatever the storage holds.
  static recall() {
    try {
      const kept = Object.entries(JSON.parse(localStorage.getItem(LOOKS)) ?? {});
      return Object.fromEntries(kept.filter(([name, value]) => /^(dark|projector)$/.test(name) && typeof value === "boolean"));
    } catch {
      return {};
    }
  }
}
