// One lane: who writes, its text as bands of tokens, one band a forward pass, its counters, and its verdict. It keeps
// the changes that messages bring until `flush` puts them into the page; charts wait for `draw`.

import { make, put } from "../shared/dom.js";
import { isRefused } from "../shared/reasons.js";
import { bandNode, decimals, givenNode, oneLine, plural, proposedBy, proposedWords } from "../shared/tokens.js";
import { sureness, thresholdName, tokenNode, verdictWords, visiblePiece } from "../shared/tokens.js";
import { Counters } from "./counters.js";

const ENDINGS = { length: "length limit", cancelled: "stopped" };
const ONE_STOP = 4; // passes: a threshold that changes again within them was on its way
const NOTHING = { tokens: 0, passes: 0, tokensPerForward: 0, seconds: 0, tokensPerSecond: 0 };
const SHARED = " Other runs shared these passes; the times are those of the whole passes.";
const OTHER_MODEL = "No ratio: this model has another size, so a ratio would compare models, not decoders.";

export class LaneView {
  // `lane` is the lane of the message that opened the run; `facts` gets what each token and ghost stands for.
  constructor(lane, facts, recorded = false) {
    Object.assign(this, { lane, facts, recorded });
    this.tokens = [];
    this.passes = []; // {nodes, number, tokens so far, seconds, at}
    this.sources = []; // of the tokens that passes gained beyond their first
    this.positions = []; // of a pass: {offered, accepted}, in how many passes
    this.masks = 0; // that its passes have spent
    this.gone = null; // how many passes a replay shows; all of them with null
    this.turned = null; // the last band that is marked with a new threshold
    this.now = NOTHING;
    this.waiting = document.createDocumentFragment();
    const named = { "data-lane": lane.key, "aria-label": `${lane.title} lane` };
    this.root = make("section", `lens-lane lens-lane-${lane.family}`, "", named);
    this.counters = new Counters();
    const reason = make("p", "lens-lane-inactive", lane.inactive);
    this.note = make("p", "lens-lane-note");
    this.text = lane.problem ? make("p", "lens-refusal lens-lane-problem", lane.problem) : this.block();
    const about = make("p", "lens-lane-about", `${lane.checkpoint} · ${lane.note}`);
    about.title = about.textContent;
    const foot = put(make("div", "lens-stack lens-lane-foot"), reason, this.note, this.counters.root, about);
    put(this.root, this.top(), ...this.conversation(), this.text, foot);
    this.sum(NOTHING);
  }

  top() {
    this.badge = make("span", "lens-badge");
    this.ending = make("span", "lens-ending");
    this.speed = make("p", "lens-speedup");
    this.summary = make("p", "lens-lane-sum", "", { title: "Model time, without drawing and sending." });
    this.agreement = make("p", "lens-lane-agreement");
    const letter = make("span", "lens-lane-letter", this.lane.letter);
    this.tau = make("span", "lens-lane-tau lens-roomy");
    const name = put(make("h2", "lens-lane-title"), letter, make("span", "", this.lane.title), this.tau);
    return put(make("div", "lens-lane-top"), name, this.ending, this.badge, this.speed, this.summary, this.agreement);
  }

  conversation() {
    const { earlier } = this.lane;
    if (!earlier.length) return [];
    const said = make("summary", "", `Question ${earlier.length + 1} · after “${oneLine(earlier.at(-1)[0])}”`);
    const turns = earlier.flat().map((turn, place) => make("p", place % 2 ? "lens-pre lens-note" : "lens-pre", turn));
    return [put(make("details", "lens-note lens-earlier"), said, ...turns)];
  }

  block() {
    const { hint, title, answer_prefix: start } = this.lane;
    const name = `Text written by ${title}; arrow keys walk through its tokens`;
    const text = make("div", "lens-text", "", { tabindex: 0, "data-hint": hint, role: "group", "aria-label": name });
    if (start) text.append(givenNode(start));
    return text;
  }

  // All of the answer before the token at this place.
  before(index) {
    return this.lane.answer_prefix + this.tokens.slice(0, index).map(({ textContent }) => textContent).join("");
  }

  // The clock of the lane at its last pass, in seconds of model time.
  get clock() {
    return this.passes.at(-1)?.at ?? 0;
  }

  // The mean time from one pass that wrote to the next, of these; 0 where nobody knows.
  milliseconds(passes = this.passes) {
    const [first, last] = this.recorded ? [] : [passes[0], passes.at(-1)];
    return first ? (1000 * (last.at - first.at + first.seconds)) / passes.length : 0;
  }

  counts({ counts }) {
    this.now = counts;
    this.changed = true;
  }

  pass(message) {
    const band = passBand(this.lane, message, this.facts);
    const nodes = message.ghosts.length ? [band, ghostRow(this.lane, message, this.facts)] : [band];
    this.turn(band, message);
    for (const node of band.children) if (node.dataset.index) this.tokens.push(node);
    this.waiting.append(...nodes);
    this.sources.push(...message.tokens.slice(1).map(([, , source]) => source));
    for (let place = 0; place < message.window; place++) {
      const position = (this.positions[place] ??= { offered: 0, accepted: 0 });
      position.offered += 1;
      position.accepted += place < message.tokens.length;
    }
    const { number, seconds, at, masks } = message;
    this.masks += masks;
    this.passes.push({ nodes, number, seconds, at, tokens: this.tokens.length });
    this.counts(message);
  }

  // A mark for each place where a moving slider came to rest; the head of a lane that follows it has the last.
  turn(band, { number, threshold }) {
    if (this.threshold === threshold) return;
    if (this.threshold !== undefined) {
      if (this.turned && number - this.turned.number < ONE_STOP) this.turned.band.classList.remove("lens-turned");
      band.classList.add("lens-turned");
      band.dataset.turned = thresholdName(threshold);
      this.turned = { band, number };
    }
    this.threshold = threshold;
    const follows = this.lane.settings.follows && !this.recorded;
    if (follows && (threshold !== null || this.tau.textContent)) this.tau.textContent = thresholdName(threshold);
  }

  end({ tail, reason }) {
    if (tail) this.waiting.append(tail);
    this.ending.textContent = this.ending.title = ENDINGS[reason] ?? "";
    this.flush();
  }

  // Put what has come since the last time into the page, at once.
  flush() {
    if (this.changed) this.sum(this.now);
    this.changed = false;
    if (this.waiting.hasChildNodes()) this.text.append(this.waiting);
  }

  // A recorded run counts passes, a live one model time as well.
  sum(counts) {
    const { passes, tokens, seconds } = counts;
    const more = this.recorded ? plural(tokens, "token") : `${decimals(seconds, 2)} s`;
    this.summary.textContent = `${plural(passes, "pass", "passes")} · ${more}`;
    if (this.recorded) this.head(passes ? decimals(counts.tokensPerForward, 2) : "–", "tokens / pass");
    this.counters.show({ counts, milliseconds: this.milliseconds(this.passes.slice(0, this.gone ?? undefined)) });
  }

  // Whether passes pay beside those of `base`, in the same picture as the counters of both.
  pays(base) {
    const beside = base !== this && base.lane.family === "ar" && !this.alone;
    this.counters.pays(this.now.tokensPerForward, this.milliseconds(), beside ? base.milliseconds() : 0);
  }

  // Beside `base`, the lane that the others are compared with. This is of the whole run, whatever of it a replay shows.
  draw(base) {
    const { shared } = this.now;
    this.counters.draw(this.positions);
    this.note.textContent = `${this.spent}${this.alone ? ` ${OTHER_MODEL}` : ""}${shared ? SHARED : ""}`;
    if (!this.recorded && !this.said) this.ratio(null, base.lane.title, base === this);
  }

  // `other` names the lane that it differs from, where there are several.
  differs(index, other) {
    const token = this.tokens[index];
    if (!token) return;
    token.classList.add("differs");
    token.dataset.differs = `${token.dataset.differs ?? ""}${other}`;
  }

  // What proposed the tokens that passes gained beyond their first, and what was spent on them, in words.
  get spent() {
    const counts = proposedBy(this.sources, this.lane.decoder);
    const gained = this.sources.length ? `Beyond one token per pass: ${proposedWords(counts)}.` : "";
    return this.masks ? `${gained} ${plural(this.masks, "mask")} computed.`.trim() : gained;
  }

  // Over `baseline`; null until it is known, and for a lane with another model.
  ratio(ratio, baseline, isBaseline = false) {
    this.said = Boolean(ratio);
    if (isBaseline) return;
    this.head(ratio ? `${decimals(ratio, 2)}×` : "–", baseline, "the speed of ");
    this.speed.title = `${baseline}'s time for as many tokens ÷ its own, the prompt included.`;
  }

  // `before` is left out where the head has no room.
  head(number, words, before = "") {
    const said = put(make("span"), make("span", "lens-roomy", before), words);
    this.speed.replaceChildren(make("strong", "lens-ratio", number), said);
  }

  verdict({ right }) {
    this.badge.textContent = verdictWords(right);
    this.badge.classList.add(right ? "right" : "wrong");
  }

  // `more` is left out where the head has no room.
  agrees(sentence = "", more = "", tokens = 0) {
    this.agreement.replaceChildren(sentence, ...(more ? [make("span", "lens-roomy", more)] : []));
    this.agreement.dataset.tokens = tokens;
    this.agreement.title = tokens ? plural(tokens, "token") : "";
  }

  // Show the text that the lane had written when its clock stood at `at`. The rest keeps its place, so nothing moves.
  showUntil(at) {
    const count = this.passes.findIndex((pass) => pass.at > at + 1e-9);
    const gone = count < 0 ? this.passes.length : count;
    const from = this.gone ?? this.passes.length;
    if (gone === from) return;
    for (const { nodes } of this.passes.slice(Math.min(from, gone), Math.max(from, gone))) {
      for (const node of nodes) node.classList.toggle("later", gone < from);
    }
    this.gone = gone;
    this.root.classList.toggle("lens-lane-early", gone < this.passes.length);
    const { number = 0, tokens = 0, at: seconds = 0 } = this.passes[gone - 1] ?? {};
    const [tokensPerForward, tokensPerSecond] = [tokens / (number || 1), tokens / (seconds || 1)];
    this.sum({ tokens, passes: number, seconds, tokensPerForward, tokensPerSecond });
  }

  // The places that arrow keys walk through: the tokens, and the ghosts that are shown.
  get places() {
    return [...this.text.querySelectorAll(".lens-token, .lens-ghost")].filter((node) => node.checkVisibility());
  }
}

// One forward pass of a lane: a band of the tokens that it accepted, and behind that the proposals that it rejected.
// `facts` gets what each token and ghost stands for: {lane, message, place in the window}.
function passBand(lane, message, facts) {
  const nodes = message.tokens.map(([piece, score, , ends, kind], place) => {
    const node = tokenNode(piece, { kind, sure: sureness(score, lane.score), first: place === 0, ends });
    node.tabIndex = -1;
    node.dataset.index = message.start + place;
    facts.set(node, { lane, message, place });
    return node;
  });
  const band = bandNode(message.number, nodes, proposedBy(message.tokens.map(([, , source]) => source), lane.decoder));
  band.dataset.pass = message.number;
  band.dataset.threshold = message.threshold === null ? "none" : String(message.threshold);
  return band;
}

// The text of a rejected proposal is drawn by the style sheet: it is no part of what the lane wrote, neither for who
// copies the text nor for a screen reader.
function ghostRow(lane, message, facts) {
  const nodes = message.ghosts.map(([piece, score], behind) => {
    const [word, place] = [visiblePiece(piece), message.tokens.length + behind];
    const style = `--sure: ${sureness(score, lane.score).toFixed(3)}`;
    const said = { "data-piece": word, style, tabindex: -1, role: "img", "aria-label": `Not accepted: ${word}` };
    const node = make("span", `lens-ghost${isRefused(message.reasons, place) ? " refused" : ""}`, "", said);
    facts.set(node, { lane, message, place });
    return node;
  });
  return put(make("span", "lens-ghosts", "", { "aria-hidden": true }), ...nodes);
}
