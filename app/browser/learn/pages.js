// The pages of the course: what each says, what it asks of the reader, and what it lets the reader do.

import { button, make, put, status } from "../shared/dom.js";
import { plural, verdictWords } from "../shared/tokens.js";
import { proposals, slider, walk, written } from "./parts.js";

const oneTokenPage = {
  id: "one-token",
  title: "One token at a time",
  question: "Why does every token cost a whole pass through the model?",
  text: [
    "A language model reads everything written so far and says which token comes next. That is one forward pass: one " +
      "trip through all of its weights. The token is appended, and the next pass begins.",
    "Most of the time of a pass goes into fetching the weights, not into computing with them. So one pass that gains " +
      "three tokens costs less than three passes, though more than one.",
  ],
  task: "Write ten tokens, one forward pass each.",
  build(stage, { ar }, done) {
    let count = 0;
    const text = make("div");
    const told = make("p", "lens-learn-told");
    const next = button("lens-tool", "Next forward pass", () => draw(count + 1));
    const draw = (to) => {
      count = to;
      text.replaceChildren(written(ar, count));
      told.textContent = `${plural(count, "forward pass", "forward passes")}, ${plural(count, "token")}`;
      next.disabled = count === ar.writing.length;
      if (count >= 10) done();
    };
    put(stage, put(make("div", "lens-row"), next, told), text);
    draw(0);
    return next;
  },
};

const windowPage = {
  id: "window",
  title: "Masks in the window",
  question: "How can one pass write several tokens?",
  text: [
    "Many tokens leave hardly any choice: in a list of planets, “Venus” follows “Mercury,”. MARS appends masks to " +
      "the text, here five of them, and forwards them in the same pass. The last real token " +
      "proposes the next token, as before; each mask proposes the token one place further on.",
    "The first proposal has read only real text. The others have read masks: they do not know the tokens before " +
      "them. Those from the left that are sure enough are accepted, and the masks move on. Each coloured " +
      "band came out of one pass; the number at its end says how many tokens it has.",
  ],
  task: "Fill the masks of a few passes, and find one that gained three tokens.",
  build(stage, { mars }, done) {
    const text = make("div");
    const window_ = make("div");
    const told = make("p", "lens-learn-told");
    let number = 0;
    const fill = button("lens-tool", "Fill the masks", () => {
      const { accepted } = mars.writing[number].row;
      window_.replaceChildren(proposals(mars, mars.writing[number]));
      told.textContent = `This pass gained ${plural(accepted, "token")}.`;
      if (accepted >= 3) done();
    });
    const [controls] = walk(mars.writing.length, (to) => {
      number = to;
      text.replaceChildren(written(mars, to));
      window_.replaceChildren(proposals(mars, mars.writing[to], { shown: false }));
      told.textContent = "";
    });
    controls.prepend(fill);
    const threshold = mars.lane.settings.threshold.toFixed(2);
    put(stage, controls, text, window_, told, make("p", "lens-note", `Sure enough: a score of at least ${threshold}.`));
    return fill;
  },
};

const THRESHOLDS = [...Array(96).keys()].map((step) => (step + 5) / 100);

const thresholdPage = {
  id: "threshold",
  title: "The threshold",
  question: "How sure must the model be before a token is accepted?",
  text: [
    "From the left, a proposal is accepted while its score reaches the threshold τ. The first one below τ ends the " +
      "pass; all behind it are discarded, however sure the model was of them.",
    "The first proposal needs no score: it is the token that the model would have written anyway. At τ\u00a0=\u00a01 " +
      "a pass gains hardly more than that one token. (This page and the next show a small model with seven masks, " +
      "whose answers can be checked.)",
  ],
  task: "For one pass, find a τ that accepts exactly three tokens, and one that accepts at least three more.",
  build(stage, { small }, done) {
    const window_ = make("div");
    const told = make("p", "lens-learn-told");
    let number = 0;
    let threshold = 0.95;
    let reached = new Set();
    const draw = () => {
      const pass = small.writing[number];
      const count = small.wouldAccept(pass.index, threshold);
      reached.add(count);
      window_.replaceChildren(proposals(small, pass, { accepted: count, threshold }));
      told.textContent = `${count} of ${pass.row.proposals.length} accepted.`;
      if (reached.has(3) && Math.max(...reached) >= 6) done();
    };
    const range = [THRESHOLDS[0], THRESHOLDS.at(-1), 0.01];
    const knob = slider("Threshold τ", range, threshold, (value) => value.toFixed(2), (value) => {
      threshold = value;
      draw();
    });
    // Begin at a pass in which there is something to choose.
    const counts = ({ index }) => new Set(THRESHOLDS.map((value) => small.wouldAccept(index, value)));
    const spread = (pass) => counts(pass).has(3) && Math.max(...counts(pass)) >= 6;
    const begin = Math.max(0, small.writing.findIndex(spread));
    const show = (to) => {
      number = to;
      reached = new Set();
      draw();
    };
    const [controls] = walk(small.writing.length, show, begin);
    put(stage, knob, controls, window_, told);
    return knob;
  },
};

const lowThresholdPage = {
  id: "low-threshold",
  title: "Errors at a low\u00a0τ",
  question: "How low can τ go before the answer is wrong?",
  text: [
    "A lower τ gains more tokens a pass. But an accepted token stays: all later ones build on it, right or " +
      "wrong. Neighbouring masks do not see each other's answers either, so two of them can be plausible alone and " +
      "wrong together.",
    "Here is the same problem, recorded at eight thresholds.",
  ],
  task: "Lower τ until the first wrong answer appears.",
  build(stage, { prompt, sweep }, done) {
    const text = make("div");
    const told = status("lens-learn-told");
    const lastWrong = sweep.findLastIndex(({ lane }) => lane.right === false);
    const seen = new Set();
    const last = sweep.length - 1; // as everywhere: a lower τ is further left
    const read = (place) => sweep[place].lane.settings.threshold.toFixed(2);
    const knob = slider("Threshold τ", [0, last, 1], last, read, (place) => {
      const { lane, writing } = sweep[place];
      const [tokens, passes] = [lane.written.length, writing.length];
      seen.add(place);
      text.replaceChildren(written(sweep[place], passes, lane.right ? "right" : "wrong"));
      told.textContent =
        `${verdictWords(lane.right)} · ${tokens} tokens in ${passes} passes, ` +
        `${(tokens / passes).toFixed(2)} tokens / pass`;
      if (place === lastWrong && seen.has(lastWrong + 1)) done();
    });
    put(stage, make("p", "", prompt), knob, told, text);
    return knob;
  },
};

const BUSY = 1; // the mean number of processes that want to run, from which on other programs took part of the time

const widthPage = {
  id: "width",
  title: "The cost of a wider pass",
  question: "Why does one pass of eight columns cost far less than eight passes of one?",
  text: [
    "Each column of a pass is a position that the model reads: a token or a mask. The pass fetches every weight from " +
      "memory once, however many columns use it. So eight columns cost less than eight passes of one column. But " +
      "they do not cost the same as one; how much more depends on the machine.",
    "A wider pass pays only if it gains more than it costs: one that takes 1.5 times as long as AR's must gain more " +
      "than 1.5 tokens on average. Compare marks that point under each text.",
  ],
  task: "Find the widest pass that takes less than twice as long as a pass of one column.",
  build(stage, { passTimes }, done) {
    const { times, checkpoint, hardware, dtype, threads, context, date, load } = passTimes;
    const one = times[0].seconds;
    const most = Math.max(...times.map(({ seconds }) => seconds));
    const widest = times.findLastIndex(({ seconds }) => seconds < 2 * one);
    const bars = times.map(({ columns, seconds }) => {
      const title = `${plural(columns, "column")}: ${milliseconds(seconds)}`;
      const style = `height: ${(100 * seconds) / most}%`;
      return make("span", "lens-learn-column", "", { "data-columns": columns, title, style });
    });
    const told = status("lens-learn-told");
    const seen = new Set();
    const range = [0, times.length - 1, 1];
    const knob = slider("Columns of the pass", range, 0, (place) => String(times[place].columns), (place) => {
      const { columns, seconds } = times[place];
      seen.add(place);
      bars.forEach((bar, each) => bar.classList.toggle("chosen", each === place));
      const apart = columns === 1 ? "" : ` ${columns} passes of one column take ${milliseconds(columns * one)}.`;
      const ratio = (seconds / one).toFixed(1);
      told.textContent = `${milliseconds(seconds)} a pass, ${ratio} times that of one column.${apart}`;
      if (place === widest && (widest === times.length - 1 || seen.has(widest + 1))) done();
    });
    const source =
      `Measured: ${checkpoint} behind ${context} cached positions, ${hardware}, ${dtype}, ` +
      `${plural(threads, "thread")}, ${date.slice(0, 10)}.` +
      (load >= BUSY ? " Other programs ran meanwhile: look at the shape, not at the milliseconds." : "");
    put(stage, knob, put(make("div", "lens-learn-bars named"), ...bars), told, make("p", "lens-note", source));
    return knob;
  },
};

const milliseconds = (seconds) => `${(1000 * seconds).toFixed(seconds < 0.1 ? 1 : 0)} ms`;

const exactPage = {
  id: "exact",
  title: "Exact multi-token decoding",
  question: "Can several tokens a pass give exactly the text of one at a time?",
  text: [
    "A threshold trades accuracy for speed. There is a way without this trade: read likely proposals as drafts in " +
      "the next pass. At every draft, that pass shows the token that the model itself writes there. Drafts are " +
      "accepted as long as the two are the same; the first that differs is replaced by the model's own token.",
    "The text is the same as with one token a pass, token for token. There is no threshold and no loss; the price is " +
      "that every draft is read once more before it counts.",
  ],
  task: "Find a pass in which a draft was refused.",
  build(stage, { ar, exact }, done) {
    const text = make("div");
    const window_ = make("div");
    const told = status("lens-learn-told");
    const same = ar.lane.written.join("") === exact.lane.written.join("");
    const [controls, next] = walk(exact.writing.length, (to) => {
      const { accepted, proposals: all } = exact.writing[to].row;
      const drafts = all.filter(({ source }) => source === "draft").length;
      const right = Math.min(drafts, accepted - 1);
      text.replaceChildren(written(exact, to));
      window_.replaceChildren(proposals(exact, exact.writing[to], { kept: true }));
      const checked = drafts
        ? `${right} of ${plural(drafts, "draft")} accepted, and one token more`
        : "No draft to check";
      told.textContent = `${checked}: ${plural(accepted, "token")} in this pass.`;
      if (right < drafts) done();
    });
    const compared =
      `${exact.lane.written.length} tokens in ${exact.writing.length} passes; one at a time takes ` +
      `${ar.writing.length}. The two texts are ${same ? "the same" : "different"}.`;
    put(stage, controls, text, window_, told, make("p", "lens-learn-told", compared));
    return next;
  },
};

export const PAGES = [oneTokenPage, windowPage, thresholdPage, lowThresholdPage, widthPage, exactPage];
