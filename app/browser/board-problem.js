// One problem of a score board, opened below the grid: what was asked, what is right, and what each lane wrote.

class ProblemCard {
  constructor() {
    this.root = make("section", "board-card");
    this.root.hidden = true;
    this.number = null;
  }

  close() {
    this.root.hidden = true;
    this.number = null;
  }

  open(model, number) {
    const problem = model.problems[number];
    this.number = number;
    const title = make("h3", "", `Problem ${number + 1} · ${problem.family} · seed ${problem.seed}`);
    const run = make("button", "board-button board-run", "Run this one in Compare");
    run.type = "button";
    run.addEventListener("click", () => {
      const detail = { task: problem.task, seed: problem.seed };
      document.dispatchEvent(new CustomEvent("lens:problem", { detail }));
    });
    const answer = put(make("p", "board-answer"), make("span", "", "Known answer"), make("b", "", problem.answer));
    const texts = put(make("div", "board-texts"), ...model.lanes.map((lane) => this.text(model, lane, number)));
    const asked = put(make("div", "board-asked"), make("p", "board-prompt", problem.prompt), answer);
    clear(this.root).append(put(make("div", "board-card-top"), title, run), asked, texts);
    this.root.setAttribute("aria-label", title.textContent);
    this.root.hidden = false;
  }

  text(model, lane, number) {
    const standing = model.standing(lane.key, number);
    const cell = model.cells[number].get(lane.key);
    const verdict = make("span", `board-verdict ${standing}`, `${SIGNS[standing]} ${WORDS[standing]}`.trim());
    const top = put(make("p", "board-text-top"), make("b", "board-title", lane.title), verdict);
    const box = put(make("article", `board-text ${familyClass(lane)}`), top);
    if (cell?.text === undefined) return box;
    const rate = decimals(cell.tokens / Math.max(1, cell.passes), 2);
    const cut = cell.reason === "length" ? " · cut at the length limit" : "";
    const counts = `${cell.tokens} tokens in ${cell.passes} passes · ${rate} tokens / forward${cut}`;
    return put(box, make("p", "board-small", counts), make("p", "board-wrote", cell.text));
  }
}
