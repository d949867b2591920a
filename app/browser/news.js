// Above the lanes: the one status line, where the texts part, the way to Step through, and the speed-up of each lane.

class News {
  constructor(onStep) {
    this.status = make("p", "lens-status");
    this.status.setAttribute("role", "status");
    this.parting = make("p", "lens-parting");
    this.speeds = make("div", "lens-speeds");
    const button = make("button", "lens-step-through", "Step through this run"); // shown once the run is over
    button.type = "button";
    button.addEventListener("click", onStep);
    const news = put(make("div", "lens-news"), this.status, this.parting, button);
    this.root = put(make("div", "lens-board"), news, this.speeds);
  }

  // `lanes` are the views by key.
  open(lanes) {
    this.lanes = lanes;
    this.partings = new Map();
    this.parting.textContent = "";
    this.baseline = null;
    const first = [...lanes.values()].find(({ lane }) => lane.family === "ar") ?? [...lanes.values()][0];
    if (first) this.compare(first.lane.key);
  }

  // A ratio for each lane but the baseline.
  compare(baseline) {
    if (baseline === this.baseline) return;
    this.baseline = baseline;
    this.ratios = new Map();
    this.speeds.replaceChildren();
    const several = this.lanes.size > 2;
    this.speeds.classList.toggle("several", several);
    const base = this.lanes.get(baseline);
    for (const [key, view] of this.lanes) {
      view.counters.show({ isBaseline: key === baseline, baseline: base.name, ratio: key === baseline ? 1 : null });
      if (key === baseline) continue;
      const ratio = make("strong", "lens-ratio", "–");
      const words = several ? `${key.toUpperCase()} over ${baseline.toUpperCase()}` : `${view.lane.title} over ${base.lane.title}`;
      this.ratios.set(key, ratio);
      const about = make("span", "", `${words}, in ${several ? "tok / s" : "tokens per second"}`);
      this.speeds.append(put(make("p", `lens-speedup lens-lane-${view.lane.family}`), ratio, about));
    }
  }

  speedup({ ratios, baseline }) {
    this.compare(baseline);
    for (const [key, ratio] of Object.entries(ratios)) {
      this.ratios.get(key).textContent = `${decimals(ratio, 2)}×`;
      this.lanes.get(key).counters.show({ ratio });
    }
  }

  // Two texts part, each at its own token, or with `tokens` null are the same.
  part(key, baseline, tokens) {
    const [one, other] = [key, baseline].map((each) => each.toUpperCase());
    const pair = this.lanes.size > 2 ? `${one} and ${other}` : "The texts";
    let sentence = pair === "The texts" ? "Both texts are the same." : `${pair} wrote the same text.`;
    if (tokens) {
      const [here, there] = [tokens[key] + 1, tokens[baseline] + 1];
      const place = here === there ? `token ${here}` : `token ${there} of ${other}, ${here} of ${one}`;
      sentence = `${pair} first differ at ${place}.`;
    }
    this.partings.set(key, sentence);
    this.parting.textContent = [...this.partings.values()].join(" ");
  }
}
