// The data of a score board: the problems, the lanes, a cell for each of both, and the last row of counts of each lane.

import { OVER } from "../shared/feed.js";

export class BoardModel {
  constructor(opening) {
    Object.assign(this, opening);
    this.baseline = null;
    this.state = { state: "loading", sentence: "" };
    this.scores = new Map();
    this.cells = opening.problems.map(() => new Map());
    this.done = 0;
  }

  get writers() {
    return this.lanes.filter((lane) => !lane.problem);
  }

  get over() {
    return OVER.includes(this.state.state);
  }

  lane(key) {
    return this.lanes.find((lane) => lane.key === key);
  }

  // pending, writing, right, wrong, or stopped
  standing(key, number) {
    const cell = this.cells[number].get(key);
    if (!cell) return this.lane(key).problem ? "absent" : "pending";
    return cell.text === undefined ? cell.standing : cell.right ? "right" : "wrong";
  }

  differs(number) {
    const verdicts = new Set(this.writers.map((lane) => this.standing(lane.key, number)));
    return verdicts.has("right") && verdicts.has("wrong");
  }

  begin(key, number) {
    this.cells[number].set(key, { standing: "writing" });
  }

  finish(message) {
    if (this.cells[message.problem].get(message.lane)?.text === undefined) this.done += 1;
    this.cells[message.problem].set(message.lane, message);
  }

  // Give up the answers that are still being written; returns the numbers of their problems.
  abandon() {
    const writing = ({ standing }) => standing === "writing";
    return this.cells.flatMap((cells, number) => {
      const left = [...cells.values()].filter(writing);
      for (const cell of left) cell.standing = "stopped";
      return left.length ? [number] : [];
    });
  }
}

// A score board as CSV, a row for each answer. Names come from this machine's operator and no text of a model is written,
// yet a cell that a spreadsheet would take for a formula gets a quotation mark in front.
const HEADS = ["problem", "family", "seed", "lane", "checkpoint", "about", "right", "tokens", "passes", "finish_reason"];

export function boardCsv(model) {
  const rows = model.problems.flatMap(({ task, seed }, number) =>
    model.writers.map((lane) => {
      const { right, tokens, passes, reason } = model.cells[number].get(lane.key) ?? {};
      return [number + 1, task, seed, lane.title, lane.checkpoint, lane.note, right, tokens, passes, reason];
    }),
  );
  return [HEADS, ...rows].map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

function csvCell(value) {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function boardName(model) {
  const day = model.date.slice(0, 10).replace(/[^0-9-]/g, "");
  return `mars-lens-board-${day}-${model.id.slice(0, 8).replace(/\W/g, "")}`;
}
