// The numbers of the figure: a table that sorts by any column. Each row opens the card of its run.

class TradeTable {
  constructor(onPick) {
    this.onPick = onPick;
    this.root = make("div", "trade-scroll");
    this.root.tabIndex = 0;
    this.root.setAttribute("role", "region");
    this.root.setAttribute("aria-label", "The numbers of the figure");
    this.sorted = null; // {label, up}
  }

  show({ columns, rows }) {
    Object.assign(this, { columns, rows });
    if (!columns.some(({ label }) => label === this.sorted?.label)) this.sorted = null;
    this.draw();
  }

  mark(id) {
    this.picked = id;
    for (const row of this.root.querySelectorAll("tbody tr")) row.classList.toggle("picked", row.dataset.run === id);
  }

  draw() {
    const head = make("tr");
    this.columns.forEach((column, place) => head.append(this.heading(column, place)));
    const body = put(make("tbody"), ...this.order().map((row) => this.row(row)));
    const table = put(make("table", "trade-table"), put(make("thead"), head), body);
    this.root.replaceChildren(table);
    this.mark(this.picked);
  }

  heading({ label, number }) {
    const cell = make("th", number ? "number" : "");
    cell.scope = "col";
    const { up } = this.sorted?.label === label ? this.sorted : {};
    if (up !== undefined) cell.setAttribute("aria-sort", up ? "ascending" : "descending");
    const button = make("button", "trade-sort", label);
    button.type = "button";
    button.append(make("span", "trade-arrow", up === undefined ? "" : up ? "▲" : "▼"));
    button.addEventListener("click", () => this.sort(label, number));
    return put(cell, button);
  }

  // Numbers begin with the largest, words with the first letter; once more turns it round.
  sort(label, number) {
    const up = this.sorted?.label === label ? !this.sorted.up : !number;
    this.sorted = { label, up };
    this.draw();
    const place = this.columns.findIndex((column) => column.label === label);
    this.root.querySelectorAll(".trade-sort")[place].focus();
  }

  order() {
    if (!this.sorted) return this.rows;
    const place = this.columns.findIndex(({ label }) => label === this.sorted.label);
    const way = this.sorted.up ? 1 : -1;
    const key = ({ cells }) => (cells[place].length > 1 ? cells[place][1] : cells[place][0] || null);
    return [...this.rows].sort((one, other) => {
      const [a, b] = [key(one), key(other)];
      if (a === null || b === null) return (a === null) - (b === null); // what is not known comes last
      return way * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
    });
  }

  row({ id, cells }) {
    const row = make("tr");
    row.dataset.run = id;
    cells.forEach(([words], place) => {
      const cell = make(place ? "td" : "th", this.columns[place].number ? "number" : "");
      if (place) cell.textContent = words;
      else {
        cell.scope = "row";
        const button = make("button", "trade-open", words);
        button.type = "button";
        button.title = "Show the card of this run";
        button.addEventListener("click", () => this.onPick(id));
        cell.append(button);
      }
      row.append(cell);
    });
    return row;
  }
}
