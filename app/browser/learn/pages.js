// The pages of the course: what each says, what it asks of the reader, and what it lets the reader do.

import { checkbox, make, button as plainButton, put, status } from "../shared/dom.js";
import { acceptedAt } from "../shared/reasons.js";
import { plural } from "../shared/tokens.js";
import { button, proposals, slider, visible, walk, written } from "./parts.js";

const oneTokenPage = {
  id: "one-token",
  title: "One token at a time",
  question: "Why does every token cost a whole pass through the model?",
  text: [
    "A language model reads everything written so far and says which token comes next. That is one forward pass: one " +
      "trip through all of its weights. The token is appended, and the next pass begins.",
    "Most of the time of a pass goes into fetching the weights, not into computing with them. So a pass that gained " +
      "several tokens would not take much longer.",
  ],
  answer: "A pass reads everything written so far and adds one token.",
  task: "Write ten tokens, one forward pass each.",
  build(stage, { ar }, done) {
    let count = 0;
    const text = make("div");
    const told = make("p", "lens-learn-told");
    const next = button("Next forward pass", () => draw(Math.min(count + 1, ar.passes.length)));
    const draw = (to) => {
      count = to;
      text.replaceChildren(written(ar, count));
      told.textContent = `${plural(count, "forward pass", "forward passes")}, ${count} tokens`;
      next.disabled = count === ar.passes.length;
      if (count >= 10) done();
    };
    put(stage, put(make("div", "lens-learn-controls"), next, told), text);
    draw(0);
    return next;
  },
};

const obviousPage = {
  id: "obvious",
  title: "Obvious tokens",
  question: "How many tokens are almost certain beforehand?",
  text: [
    "Many tokens leave hardly any choice. After “Monday,” comes “Tuesday”; the second half of a long word follows from " +
      "the first. The model gives them a probability close to 1.",
    "Every token below cost a whole pass. Choose one, and its underline shows how sure the model was: the longer, the " +
      "surer, here and everywhere else on this page.",
  ],
  answer: "The model is almost certain of many tokens.",
  task: "Find five tokens that the model was at least 99 % sure of.",
  build(stage, { ar }, done) {
    const found = new Set();
    const told = status("lens-learn-told", "None found yet.");
    const text = make("div", "lens-learn-text");
    ar.passes.forEach((pass, number) => {
      const [, score, , ends] = pass.proposals[0];
      const token = plainButton("lens-learn-guess", ends ? "end" : visible(ar.written[pass.start]), () => {
        token.style.setProperty("--sure", score);
        token.classList.add("opened", score >= 0.99 ? "sure" : "unsure");
        if (score >= 0.99) found.add(number);
        told.textContent = `The model was ${(100 * score).toFixed(score > 0.995 ? 1 : 0)} % sure. Found: ${found.size} of 5.`;
        if (found.size >= 5) done();
      });
      text.append(token);
    });
    put(stage, text, told);
    return text;
  },
};

const windowPage = {
  id: "window",
  title: "Masks in the window",
  question: "How can one pass write several tokens?",
  text: [
    "MARS appends masks to the text, here five of them, and forwards them in the same pass. The last real token says " +
      "what comes next, as ever; each mask says what comes one place further on.",
    "The first proposal has read only real text. The others have read masks: they are guesses about a future that is " +
      "not written yet. Those from the left that are sure enough are accepted, and the masks move on. Each coloured " +
      "band came out of one pass; the number at its end says how many tokens it has.",
  ],
  answer: "Masks behind the text let one pass propose a whole block; those that are sure enough are accepted.",
  task: "Fill the masks of a few passes, and find one that gained three tokens.",
  build(stage, { mars }, done) {
    const text = make("div");
    const window_ = make("div");
    const told = make("p", "lens-learn-told");
    let number = 0;
    const fill = button("Fill the masks", () => {
      const pass = mars.passes[number];
      window_.replaceChildren(proposals(pass));
      told.textContent = `This pass gained ${plural(pass.accepted, "token")}.`;
      if (pass.accepted >= 3) done();
    });
    const [controls] = walk(mars.passes.length, (to) => {
      number = to;
      text.replaceChildren(written(mars, to));
      window_.replaceChildren(proposals(mars.passes[to], { shown: false }));
      told.textContent = "";
    });
    controls.prepend(fill);
    put(stage, controls, text, window_, told);
    controls.start();
    return fill;
  },
};

const THRESHOLDS = [...Array(96).keys()].map((step) => (step + 5) / 100);

const thresholdPage = {
  id: "threshold",
  title: "The threshold",
  question: "How sure must the model be before a token is accepted?",
  text: [
    "How sure is sure enough? The threshold τ decides. From the left, a proposal is accepted while its score reaches " +
      "τ. The first that does not ends the pass; all behind it are thrown away, however sure the model was.",
    "The first proposal needs no score: it is the token that the model would have written anyway. At τ\u00a0=\u00a01 " +
      "a pass gains hardly more than that one token. (This page and the next show a small model with seven masks, " +
      "whose answers can be checked.)",
  ],
  answer: "Proposals are accepted from the left, up to the first whose score does not reach τ.",
  task: "For one pass, find a τ that accepts exactly three tokens, and one that accepts at least three more.",
  build(stage, { small, tried }, done) {
    const window_ = make("div");
    const told = make("p", "lens-learn-told");
    let number = 0;
    let threshold = 0.95;
    let reached = new Set();
    const draw = () => {
      const pass = small.passes[number];
      const count = acceptedAt(tried[number], threshold);
      reached.add(count);
      window_.replaceChildren(proposals(pass, { accepted: count, threshold }));
      told.textContent = `${count} of ${pass.proposals.length} accepted.`;
      if (reached.has(3) && Math.max(...reached) >= 6) done();
    };
    const range = [THRESHOLDS[0], THRESHOLDS.at(-1), 0.01];
    const knob = slider("Threshold τ", range, threshold, (value) => value.toFixed(2), (value) => {
      threshold = value;
      draw();
    });
    // Begin at a pass in which there is something to choose.
    const counts = (steps) => new Set(THRESHOLDS.map((value) => acceptedAt(steps, value)));
    const spread = (steps) => counts(steps).has(3) && Math.max(...counts(steps)) >= 6;
    const begin = Math.max(0, tried.findIndex(spread));
    const show = (to) => {
      number = to;
      reached = new Set();
      draw();
    };
    const [controls] = walk(small.passes.length, show, begin);
    put(stage, knob, controls, window_, told);
    knob.show();
    controls.start();
    return knob;
  },
};

const lowThresholdPage = {
  id: "low-threshold",
  title: "What goes wrong at a low\u00a0τ",
  question: "How low can τ go before the answer is wrong?",
  text: [
    "A lower τ gains more tokens a pass. But an accepted token stays: all later ones build on it, right or " +
      "wrong. Neighbouring masks do not see each other's answers either, so two of them can be plausible alone and " +
      "wrong together.",
    "Here is the same problem, recorded at eight thresholds.",
  ],
  answer: "A lower τ accepts more tokens a pass, and in the end wrong ones.",
  task: "Lower τ until the first wrong answer appears.",
  build(stage, { prompt, sweep }, done) {
    const text = make("div");
    const told = status("lens-learn-told");
    const lastWrong = sweep.findLastIndex((lane) => lane.right === false);
    const seen = new Set();
    const last = sweep.length - 1; // as everywhere: a lower τ is further left
    const knob = slider("Threshold τ", [0, last, 1], last, (place) => sweep[place].threshold.toFixed(2), (place) => {
      const lane = sweep[place];
      const tokens = lane.written.length;
      seen.add(place);
      text.replaceChildren(written(lane, lane.passes.length, lane.right ? "right" : "wrong"));
      told.textContent =
        `${lane.right ? "✓ right" : "× wrong"} · ${tokens} tokens in ${lane.passes.length} passes, ` +
        `${(tokens / lane.passes.length).toFixed(2)} tokens per forward`;
      if (place === lastWrong && seen.has(lastWrong + 1)) done();
    });
    put(stage, make("p", "lens-learn-prompt", prompt), knob, told, text);
    knob.show();
    return knob;
  },
};

const trainingPage = {
  id: "training",
  title: "How it is trained",
  question: "How does a model learn to fill masks and stay a language model?",
  text: [
    "Ordinary fine-tuning first. Then the same data once more, each text twice in one sequence: clean, and as noise in " +
      "which every token of the answer is a mask. A block of masks reads the clean text of the blocks before it, and " +
      "the masks before it in its own block. No mask is ever read by the clean stream.",
    "Both streams are trained to say the next token. The clean one keeps the model an ordinary language model: of all " +
      "the training signal, a share of (1 + 1/B)/2 is like that of one token at a time. Without it the share is 1/B, " +
      "and the larger the block, the more the model forgets.",
  ],
  answer: "Each text is read twice, clean and masked; the clean half keeps the model a language model.",
  task: "Set B to 8 or more and leave the clean text out of the loss. Then point at a mask to see the tokens it reads.",
  build(stage, { masks }, done) {
    const state = { length: 8, block: 4, loss: true, query: null };
    const canvas = make("div", "lens-learn-matrix");
    const share = make("p", "lens-learn-told");
    const reads = make("p", "lens-learn-told");
    let removed = false;
    const mask = () => masks.find(({ length, block }) => length === state.length && block === state.block);
    const name = (place) => `${place < state.length ? "clean" : "mask"} ${(place % state.length) + 1}`;
    const point = (query) => {
      state.query = query;
      canvas.querySelectorAll("tr[data-query]").forEach((row) => row.classList.toggle("pointed", Number(row.dataset.query) === query));
      reads.textContent = `${name(query)} reads ${mask().reads[query].map(name).join(", ")}.`;
      if (removed && query >= state.length) done();
    };
    const draw = () => {
      const table = make("table", "", "", { "aria-label": "Attention mask: rows are queries, columns are keys" });
      const heads = ["clean text", "masks"].map((name) => make("th", "", name, { scope: "colgroup", colspan: state.length }));
      table.append(put(make("tr"), make("td", "corner"), ...heads));
      mask().reads.forEach((read, query) => {
        const row = make("tr", "", "", { "data-query": query, tabindex: 0 });
        row.append(make("th", "", name(query), { scope: "row" }));
        for (let key = 0; key < 2 * state.length; key++) {
          const seen = read.includes(key);
          const kind = query < state.length ? "clean" : key < state.length ? "across" : "noisy";
          const cell = make("td", seen ? `seen ${kind}` : "", seen ? "●" : "");
          if (key === state.length) cell.classList.add("second");
          row.append(cell);
        }
        if (query === state.length) row.classList.add("second");
        for (const event of ["pointerenter", "focus", "click"]) row.addEventListener(event, () => point(query));
        table.append(row);
      });
      canvas.replaceChildren(make("p", "lens-learn-source", "A dot: this row reads this column."), table);
      const part = state.loss ? (1 + 1 / state.block) / 2 : 1 / state.block;
      const formula = state.loss ? "(1 + 1/B)/2" : "1/B";
      share.textContent = `Share of the training signal that is like one token at a time: ${formula} = ${(100 * part).toFixed(0)} %`;
      removed ||= !state.loss && state.block >= 8;
    };
    // A block is no longer than the text: the other slider follows, so that what they say is what is drawn.
    const size = (label, values, key, follow) =>
      slider(label, [0, values.length - 1, 1], values.indexOf(state[key]), (place) => String(values[place]), (place) => {
        state[key] = values[place];
        follow();
        draw();
      });
    const [blocks, lengths] = ["block", "length"].map((size) => [...new Set(masks.map((each) => each[size]))].sort((a, b) => a - b));
    const block = size("Block size B", blocks, "block", () => state.block > state.length && length.set(lengths.indexOf(state.block)));
    const length = size("Length L", lengths, "length", () => state.length < state.block && block.set(blocks.indexOf(state.length)));
    const loss = checkbox(true, () => {
      state.loss = loss.checked;
      draw();
    });
    const toggle = put(make("label", "lens-learn-check"), loss, " the clean stream counts in the loss");
    put(stage, put(make("div", "lens-learn-controls"), block, length, toggle), share, canvas, reads);
    length.show();
    block.show();
    return toggle;
  },
};

const cachePage = {
  id: "cache",
  title: "Why the cache matters",
  question: "What does a pass have to read?",
  text: [
    "To read a token, the model computes its keys and values once. If they are kept, the next pass forwards only what " +
      "is new: the tokens accepted last, and the masks. If they are thrown away, every pass reads the whole text again.",
    "The masks' own keys and values are never worth keeping: a guess may turn out wrong. Rows of a " +
      "batch gain different numbers of tokens, so each keeps a cursor of its own, and none waits for another.",
  ],
  answer: "Accepted tokens are read once and kept; masks are read anew in each pass.",
  task: "Switch the cache off, and see how many positions the same answer takes.",
  build(stage, { mars }, done) {
    const chart = make("div", "lens-learn-bars");
    const told = status("lens-learn-told");
    const cached = (pass) => pass.positions;
    const whole = (pass) => pass.uncached;
    const most = Math.max(...mars.passes.map(whole));
    const sum = (count) => mars.passes.reduce((total, pass) => total + count(pass), 0);
    const draw = () => {
      const count = on.checked ? cached : whole;
      chart.replaceChildren(
        ...mars.passes.map((pass, number) => {
          const bar = make("span", "lens-learn-column");
          bar.style.height = `${(100 * count(pass)) / most}%`;
          bar.title = `pass ${number + 1}: ${count(pass)} positions`;
          return bar;
        }),
      );
      told.textContent =
        `${sum(count)} positions in ${mars.passes.length} passes` +
        (on.checked ? "." : `, ${(sum(whole) / sum(cached)).toFixed(1)} times as many as with the cache.`);
      if (!on.checked) done();
    };
    const on = checkbox(true, draw);
    const toggle = put(make("label", "lens-learn-check"), on, " keep keys and values");
    const axis = make("p", "lens-learn-source", "A bar for each pass: the positions that it reads.");
    put(stage, put(make("div", "lens-learn-controls"), toggle), chart, axis, told);
    draw();
    return toggle;
  },
};

const widthPage = {
  id: "width",
  title: "What a wider pass costs",
  question: "Why does one pass of eight columns cost far less than eight passes of one?",
  text: [
    "Each column of a pass is a position that the model reads: a token or a mask. Whatever their number, the pass " +
      "fetches every weight from memory once, and for one column it does little else. More columns use the same " +
      "weights again while they are at hand. So the second column is nearly free, and the eighth still cheap.",
    "At some width the computing itself takes the time, and each further column costs its share. Where that " +
      "begins depends on the machine: a GPU takes hundreds of columns, a processor with few cores a dozen.",
  ],
  answer: "A pass fetches the weights once, however many columns use them; up to a width, columns are cheap.",
  task: "Find the widest pass that takes less than twice as long as a pass of one column.",
  build(stage, { passTimes }, done) {
    const { times, checkpoint, machine, context, date, busy } = passTimes;
    const [[, one]] = times;
    const most = Math.max(...times.map(([, seconds]) => seconds));
    const widest = times.findLastIndex(([, seconds]) => seconds < 2 * one);
    const bars = times.map(([columns, seconds]) => {
      const bar = make("span", "lens-learn-column");
      bar.style.height = `${(100 * seconds) / most}%`;
      bar.dataset.columns = columns;
      bar.title = `${plural(columns, "column")}: ${milliseconds(seconds)}`;
      return bar;
    });
    const told = status("lens-learn-told");
    const seen = new Set();
    const range = [0, times.length - 1, 1];
    const knob = slider("Columns of the pass", range, 0, (place) => String(times[place][0]), (place) => {
      const [columns, seconds] = times[place];
      seen.add(place);
      bars.forEach((bar, each) => bar.classList.toggle("chosen", each === place));
      const apart = columns === 1 ? "" : ` ${columns} passes of one column take ${milliseconds(columns * one)}.`;
      told.textContent = `${milliseconds(seconds)} a pass, ${(seconds / one).toFixed(1)} times that of one column.${apart}`;
      if (place === widest && (widest === times.length - 1 || seen.has(widest + 1))) done();
    });
    const source =
      `Measured: ${checkpoint} behind ${context} cached positions, ${machine}, ${date}.` +
      (busy ? " Other programs ran meanwhile: look at the shape, not at the milliseconds." : "");
    put(stage, knob, put(make("div", "lens-learn-bars named"), ...bars), told, make("p", "lens-learn-source", source));
    knob.show();
    return knob;
  },
};

function milliseconds(seconds) {
  return `${(1000 * seconds).toFixed(seconds < 0.1 ? 1 : 0)} ms`;
}

const exactPage = {
  id: "exact",
  title: "Exact multi-token decoding",
  question: "Can several tokens a pass give exactly the text of one at a time?",
  text: [
    "A threshold trades accuracy for speed. There is a way without this trade: read the proposals as drafts in the " +
      "next pass. At every draft, that pass shows the token that the model itself writes there. Drafts are accepted " +
      "as long as the two are the same; the first that differs is replaced by the model's own token.",
    "The text is that of one token at a time, token for token. No threshold, no loss; the price is that every proposal " +
      "is read once more before it counts.",
  ],
  answer: "Read as drafts and checked in the next pass, proposals give exactly the text of one token at a time.",
  task: "Find a pass in which a draft was refused.",
  build(stage, { ar, exact }, done) {
    const text = make("div");
    const window_ = make("div");
    const told = status("lens-learn-told");
    const same = ar.written.join("") === exact.written.join("");
    const [controls, next] = walk(exact.passes.length, (to) => {
      const pass = exact.passes[to];
      const { drafts, right } = pass;
      text.replaceChildren(written(exact, to));
      window_.replaceChildren(proposals(pass, { kept: true }));
      told.textContent = drafts
        ? `${right} of ${plural(drafts, "draft")} accepted, and one token more: ${plural(pass.accepted, "token")} in this pass.`
        : `No draft to check: ${plural(pass.accepted, "token")} in this pass.`;
      if (right < drafts) done();
    });
    const compared =
      `${exact.written.length} tokens in ${exact.passes.length} passes; one at a time takes ${ar.passes.length}. ` +
      `The two texts are ${same ? "the same" : "different"}.`;
    put(stage, controls, text, window_, told, make("p", "lens-learn-told", compared));
    controls.start();
    return next;
  },
};

export const PAGES = [oneTokenPage, obviousPage, windowPage, thresholdPage, lowThresholdPage, trainingPage, cachePage, widthPage, exactPage];

// After the last page. The link opens Compare on the problem of these pages, with the small models that wrote them.
export const SUMMARY = {
  title: "What you have seen",
  text:
    "The link below opens Compare with the problem of lessons 4 and 5: AR, MARS with a threshold and MARS exact answer " +
    "it side by side. Press Run, and move τ while they write.",
  invitation: "Try it in Compare",
  address: ({ task, seed }) => `?tab=compare&models=tiny&task=${task}&seed=${seed}&lanes=3`,
};
