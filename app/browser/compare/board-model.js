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
