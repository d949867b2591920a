// The two-stream mask of section 3.2, as mars/masks.py has it: key j may be read by query i.
function mayRead(length, block, query, key) {
  const queryNoisy = query >= length;
  const keyNoisy = key >= length;
  const i = query % length;
  const j = key % length;
  const [own, its] = [Math.floor(i / block), Math.floor(j / block)];
  if (queryNoisy && keyNoisy) return own === its && j <= i;
  if (queryNoisy) return its < own;
  return !keyNoisy && j <= i;
}

PAGES.push({
  id: "training",
  title: "How it is trained",
  text: [
    "Ordinary fine-tuning first. Then the same data once more, each text twice in one sequence: clean, and as noise in " +
      "which every token of the answer is a mask. A block of masks reads the clean text of the blocks before it, and " +
      "the masks before it in its own block. No mask is ever read by the clean stream.",
    "Both streams are trained to say the next token. The clean one keeps the model an ordinary language model: of all " +
      "the training signal, a share of (1 + 1/B)/2 is like that of one token at a time. Without it the share is 1/B, " +
      "and the larger the block, the more the model forgets.",
  ],
  task: "Take the clean stream's loss away at B = 8 or more, and point at a mask to see what it reads.",
  build(stage, _, done) {
    const state = { length: 8, block: 4, loss: true, query: null };
    const canvas = make("div", "lens-learn-matrix");
    const share = make("p", "lens-learn-told");
    const reads = make("p", "lens-learn-told");
    let removed = false;
    const name = (place) => `${place < state.length ? "clean" : "mask"} ${(place % state.length) + 1}`;
    const point = (query) => {
      state.query = query;
      canvas.querySelectorAll("tr[data-query]").forEach((row) => row.classList.toggle("pointed", Number(row.dataset.query) === query));
      const keys = [...Array(2 * state.length).keys()].filter((key) => mayRead(state.length, state.block, query, key));
      reads.textContent = `${name(query)} reads ${keys.map(name).join(", ")}.`;
      if (removed && query >= state.length) done();
    };
    const draw = () => {
      const table = make("table");
      table.setAttribute("aria-label", "Who reads whom: rows are queries, columns are keys");
      for (let query = 0; query < 2 * state.length; query++) {
        const row = make("tr");
        row.dataset.query = query;
        row.tabIndex = 0;
        const head = make("th", "", name(query));
        head.scope = "row";
        row.append(head);
        for (let key = 0; key < 2 * state.length; key++) {
          const seen = mayRead(state.length, state.block, query, key);
          const kind = query < state.length ? "clean" : key < state.length ? "across" : "noisy";
          const cell = make("td", seen ? `seen ${kind}` : "", seen ? "●" : "");
          if (key === state.length) cell.classList.add("second");
          row.append(cell);
        }
        if (query === state.length) row.classList.add("second");
        row.addEventListener("pointerenter", () => point(query));
        row.addEventListener("focus", () => point(query));
        row.addEventListener("click", () => point(query));
        table.append(row);
      }
      canvas.replaceChildren(table);
      const part = state.loss ? (1 + 1 / state.block) / 2 : 1 / state.block;
      const formula = state.loss ? "(1 + 1/B)/2" : "1/B";
      share.textContent = `Signal like that of one token at a time: ${formula} = ${(100 * part).toFixed(0)} %`;
      removed ||= !state.loss && state.block >= 8;
    };
    const size = (label, values, key) =>
      slider(label, 0, values.length - 1, 1, values.indexOf(state[key]), (place) => String(values[place]), (place) => {
        state[key] = values[place];
        if (state.block > state.length) state.block = state.length;
        draw();
      });
    const block = size("Block size B", [1, 2, 4, 8, 16], "block");
    const length = size("Length L", [4, 8, 16], "length");
    const loss = make("input");
    loss.type = "checkbox";
    loss.checked = true;
    loss.addEventListener("change", () => {
      state.loss = loss.checked;
      draw();
    });
    const toggle = put(make("label", "lens-learn-check"), loss, " the clean stream counts in the loss");
    put(stage, put(make("div", "lens-learn-controls"), block, length, toggle), share, canvas, reads);
    length.show();
    block.show();
    return toggle;
  },
});
