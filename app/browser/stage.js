// The stage: reads the growing value, line by line, and draws it. The value starts anew with every run.

class Stage {
  constructor(root) {
    this.facts = new WeakMap();
    this.status = make("p", "lens-status");
    this.status.setAttribute("role", "status");
    this.parting = make("p", "lens-parting");
    this.ratio = make("strong", "lens-ratio", "–");
    const speed = put(make("p", "lens-speedup"), this.ratio, make("span", "", "MARS over AR, in tokens per second"));
    const news = put(make("div", "lens-news"), this.status, this.parting, stepButton(root));
    this.board = put(make("div", "lens-board"), news, speed);
    this.track = make("div", "lens-lanes");
    put(root, this.board, legend(), this.track);
    this.root = root;
    this.card = new TokenCard(root);
    this.lanes = new Map();
    this.head = "";
    this.cursor = 0;
    this.pinned = false;
    root.addEventListener("mouseover", (event) => this.show(event.target, false));
    root.addEventListener("mouseleave", () => this.show(null, false));
    root.addEventListener("click", (event) => this.show(event.target, true));
    root.addEventListener("focusin", (event) => this.show(event.target, true));
    root.addEventListener("keydown", (event) => this.walk(event));
  }

  read(value) {
    const text = value ?? "";
    if (!this.head || !text.startsWith(this.head)) {
      this.head = text.slice(0, text.indexOf("\n") + 1);
      this.cursor = 0;
    }
    for (let end = text.indexOf("\n", this.cursor); end >= 0; end = text.indexOf("\n", this.cursor)) {
      const message = JSON.parse(text.slice(this.cursor, end));
      this.cursor = end + 1;
      this[message.kind](message);
    }
  }

  open(message) {
    this.card.close();
    this.track.replaceChildren();
    this.lanes.clear();
    for (const lane of message.lanes) {
      const view = new LaneView(lane, this.facts);
      this.lanes.set(lane.key, view);
      this.track.append(view.root);
    }
    this.ratio.textContent = "–";
    this.parting.textContent = "";
    this.root.dataset.run = message.id;
  }

  state(message) {
    if (message.state === "running" && this.root.dataset.state !== "running") this.reveal();
    this.root.dataset.state = message.state;
    this.status.textContent = message.sentence;
  }

  refusal(message) {
    this.state({ state: "failed", sentence: message.sentence });
  }

  pass(message) {
    this.lanes.get(message.lane).pass(message);
  }

  counts(message) {
    this.lanes.get(message.lane).counts(message.counts);
  }

  end(message) {
    this.lanes.get(message.lane).end(message);
  }

  difference(message) {
    for (const [key, index] of Object.entries(message.tokens)) this.lanes.get(key).differs(index);
    const numbers = Object.entries(message.tokens).map(([key, index]) => [key.toUpperCase(), index + 1]);
    const alike = numbers.every(([, number]) => number === numbers[0][1]);
    const place = alike ? `token ${numbers[0][1]}` : numbers.map((pair) => pair.join(" token ")).join(", ");
    this.parting.textContent = `The texts first differ at ${place}.`;
  }

  same() {
    this.parting.textContent = "Both texts are the same.";
  }

  verdict(message) {
    this.lanes.get(message.lane).verdict(message.right);
  }

  speedup(message) {
    this.ratio.textContent = `${decimals(message.ratio, 2)}×`;
  }

  reveal() {
    const low = this.track.getBoundingClientRect().bottom > window.innerHeight;
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const top = window.matchMedia("(max-width: 800px)").matches ? this.root : document.querySelector(".lens-controls");
    if (low) top?.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
  }

  // A card opened by a tap or by the keyboard stays until another takes its place; one opened by hovering goes.
  show(target, stays) {
    const token = target instanceof Element ? target.closest(".lens-token") : null;
    if (token && this.facts.has(token)) {
      if (token !== this.card.token) this.card.open(token, this.facts.get(token));
      this.pinned = stays || (this.pinned && token === this.card.token);
    } else if (stays || !this.pinned) {
      this.card.close();
      this.pinned = false;
    }
  }

  walk(event) {
    if (event.key === "Escape") return this.card.close();
    if (event.key === "Enter") return this.card.stepThrough();
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    const view = [...this.lanes.values()].find((lane) => lane.text.contains(event.target));
    if (step === undefined || !view?.tokens.length) return undefined;
    const last = view.tokens.length - 1;
    const here = view.tokens.indexOf(event.target);
    const next = here < 0 ? (step > 0 ? 0 : last) : Math.min(last, Math.max(0, here + step));
    event.preventDefault();
    return view.tokens[next].focus();
  }
}

// Shown once the run is over (stage.css).
function stepButton(root) {
  const button = make("button", "lens-step-through", "Step through this run");
  button.type = "button";
  button.addEventListener("click", () => {
    document.dispatchEvent(new CustomEvent("lens:step", { detail: { run: root.dataset.run } }));
  });
  return button;
}

function legend() {
  const items = [
    [["lens-pass odd", "one"], ["lens-pass even", " pass"], "a forward pass"],
    [["lens-token first", "first"], "the autoregressive token, always kept"],
    [["lens-token passed", "passed"], "read from masks, reached τ"],
    [["lens-token differs", "part"], "first difference"],
  ];
  const list = make("ul", "lens-legend");
  for (const item of items) {
    const samples = item.slice(0, -1).map(([name, text]) => make("span", name, text));
    list.append(put(make("li"), put(make("span", "lens-sample"), ...samples), make("span", "", item.at(-1))));
  }
  return list;
}

const stage = new Stage(element.querySelector(".lens-stage"));
stage.read(props.value);
watch("value", () => stage.read(props.value));
