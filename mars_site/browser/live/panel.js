// Run live: the controls of a run in this browser, and the source of its messages (shared/feed.js). Every failure ends in
// one sentence, and the recorded run that was on the stage before plays again.

import { announce, button, make, ours, put, status } from "../../../app/browser/shared/dom.js";
import { OVER } from "../../../app/browser/shared/feed.js";
import { keeper } from "../../../app/browser/shared/keeper.js";

const LOCK = "mars-lens live";
const ELSEWHERE = "Another tab of this page writes: stop it there, or wait for its end.";
const BROKEN = "The engine of this page could not start in this browser.";
const FIRST = "Nothing is sent anywhere: this machine writes.";
const EMPTY = "The prompt is empty. Write one, or choose an example.";
const [TAU, STEPS, TOKENS, BLOCK] = [0.95, 100, 96, 4];

// Megabytes in words.
const size = (bytes) => `${(bytes / 1e6).toFixed(0)} MB`;

export class LivePanel {
  // `live` is what mars_site/live.py says of models and engines; `stage` sets the value of the stage; `recorded` plays the
  // recorded run that was chosen last.
  constructor(root, live, { stage, recorded, prompt }) {
    Object.assign(this, { live, stage, recorded, prompt, worker: null, heard: null, count: 0, ready: null, graphics: false });
    this.run = button("lens-tool primary lens-live-run", "", () => this.start());
    this.halt = button("lens-tool lens-live-stop", "Stop", () => this.steer({ stopped: true }));
    this.tau = make("input", "lens-live-tau", "", { type: "range", min: 0, max: STEPS, step: 1, "aria-label": "Threshold τ of lane B" });
    this.tau.value = TAU * STEPS;
    this.tauSaid = make("output", "lens-note");
    this.tau.addEventListener("input", () => this.show() ?? this.steer({ threshold: this.threshold }));
    this.block = make("input", "lens-live-block", "", { type: "number", min: 2, max: 8, value: BLOCK, "aria-label": "Block size" });
    this.status = status("lens-note lens-live-status", "");
    this.examples = make("div", "lens-row lens-examples", "", { role: "group", "aria-label": "Prompts for a live run" });
    this.pairs = make("select", "lens-live-pair", "", { "aria-label": "Models of a live run" });
    for (const { key, title } of live.pairs) put(this.pairs, make("option", "", title, { value: key }));
    this.pairs.addEventListener("change", () => this.choose());
    this.block.addEventListener("change", () => (this.block.value = this.blockSize));
    const named = (name, ...parts) => put(make("label", "lens-row"), make("span", "lens-note", name), ...parts);
    const row = put(make("div", "lens-row"), this.run, this.halt, named("τ", this.tau, this.tauSaid), named("block size", this.block));
    if (live.pairs.length > 1) row.prepend(this.pairs);
    put(root, this.examples, row, this.status);
    prompt.readOnly = false;
    prompt.setAttribute("aria-label", "Prompt");
    prompt.addEventListener("input", () => announce("lens:prompt", prompt.value));
    this.choose();
    navigator.gpu?.requestAdapter().then((adapter) => {
      this.graphics = Boolean(adapter);
      this.show();
    }, () => {});
  }

  get threshold() {
    return this.tau.value / STEPS;
  }

  // The block size that was given, or the nearest that the engine takes.
  get blockSize() {
    return Math.min(8, Math.max(2, Math.round(this.block.value === "" ? BLOCK : this.block.value)));
  }

  get pair() {
    return this.live.pairs.find(({ key }) => key === this.pairs.value);
  }

  // What is said of no run.
  rest() {
    this.status.textContent = `${FIRST} ${this.pair.note}`;
  }

  choose() {
    this.rest();
    this.examples.replaceChildren(...this.pair.prompts.map(({ label, prompt }) => button("lens-tool", label, () => this.ask(prompt))));
    this.show();
  }

  ask(prompt) {
    this.prompt.value = prompt;
    announce("lens:prompt", prompt);
  }

  show() {
    const engine = this.ready ? 0 : this.live.engines[this.graphics ? "webgpu" : "wasm"];
    this.run.textContent = this.ready === this.pair.key ? "Run live" : `Run live (loads ${size(this.pair.bytes + engine)}, once)`;
    this.halt.disabled = !this.busy;
    this.run.disabled = this.pairs.disabled = Boolean(this.busy);
    this.tauSaid.textContent = this.threshold.toFixed(2);
  }

  // Run, in no more than one tab at a time: two engines may be more than a machine has room for.
  start() {
    if (!this.prompt.value.trim()) return (this.status.textContent = EMPTY);
    if (!navigator.locks) return this.begin();
    return navigator.locks.request(LOCK, { ifAvailable: true }, (lock) => {
      if (!lock) return this.fail(ELSEWHERE);
      const over = new Promise((resolve) => (this.release = resolve));
      this.begin();
      return over;
    });
  }

  begin() {
    const id = `live-${Date.now().toString(36)}-${(this.count += 1)}`;
    this.busy = id;
    this.status.textContent = FIRST;
    this.show();
    this.stage(`${JSON.stringify({ kind: "follow", id })}\n`);
  }

  // The source of a live run, if `id` is one of these.
  follow(id, heard) {
    if (id !== this.busy) return null;
    this.heard = heard;
    this.worker ??= this.open();
    const { pair, blockSize: block_size } = this;
    const cards = pair.cards.map((card) => ({ ...card, settings: { ...card.settings, block_size, max_new_tokens: TOKENS } }));
    this.worker.postMessage({ kind: "start", id, place: ours(""), pair, cards, prompt: this.prompt.value, maxNewTokens: TOKENS, threshold: this.threshold, graphics: this.graphics });
    return { close: () => this.closed(id) };
  }

  open() {
    const worker = new Worker(ours("live.js"), { type: "module" });
    worker.onmessage = ({ data }) => this[data.kind](data);
    worker.onerror = () => this.failed({ sentence: BROKEN });
    return worker;
  }

  steer(control) {
    this.worker?.postMessage({ kind: "control", control });
  }

  // Somebody wants to see another run: this one ends.
  closed(id) {
    if (this.busy !== id) return;
    this.steer({ stopped: true });
    this.over();
  }

  over() {
    this.busy = this.heard = null;
    this.release?.();
    this.show();
  }

  // What the worker posts: messages of the run, the finished run, or why there is none.
  lines({ id, messages }) {
    if (id !== this.busy) return;
    const last = messages.find(({ kind, state }) => kind === "state" && OVER.includes(state));
    if (messages.some(({ state }) => state === "running")) this.ready = this.pair.key;
    const { heard } = this;
    if (last) this.over();
    heard.hear(messages);
  }

  // What the run tells of this machine.
  said({ sentence }) {
    this.status.textContent = sentence;
  }

  finished({ text }) {
    keeper.add(text);
  }

  failed({ id = this.busy, sentence }) {
    if (id !== this.busy) return;
    this.worker?.terminate(); // nothing is known of its state
    this.worker = null;
    this.ready = null;
    this.fail(sentence);
  }

  fail(sentence) {
    this.over();
    this.recorded();
    this.status.textContent = sentence;
  }
}
