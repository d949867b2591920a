// The data of a score board: the problems, the lanes, a cell for each of both, and the last row of counts of each lane.
// `messages` is the shortest stream that draws it again: so the last board survives a reload of the page.

import { keep } from "../shared/dom.js";
import { OVER } from "../shared/feed.js";

export const LAST_BOARD = "mars-lens:last-board";
const MOST_OF_BOARD = 700_000; // characters; the last run has its own, larger share of what browsers keep

export class BoardModel {
  constructor(opening) {
    this.opening = opening;
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

  meet({ lanes, baseline }) {
    this.lanes = lanes;
    this.baseline = baseline;
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
    const found = [];
    this.cells.forEach((cells, number) => {
      for (const cell of cells.values()) {
        if (cell.standing === "writing") {
          cell.standing = "stopped";
          found.push(number);
        }
      }
    });
    return found;
  }

  get messages() {
    const wrote = this.cells.flatMap((cells) => [...cells.values()].filter((cell) => cell.text !== undefined));
    const sentence = "You left the page while this was running. It shows what was finished by then.";
    const state = OVER.includes(this.state.state) ? this.state : { kind: "state", state: "stopped", sentence };
    const met = this.baseline ? [{ kind: "met", lanes: this.lanes, baseline: this.baseline }] : [];
    return [this.opening, ...met, ...wrote, ...this.scores.values(), state];
  }
}

export function keepBoard(model) {
  if (!model.done) return;
  const text = JSON.stringify(model.messages);
  keep(LAST_BOARD, text.length <= MOST_OF_BOARD ? text : null);
}

// The tables of a score board as CSV. Names come from this machine's operator and no text of a model is written, yet a
// cell that a spreadsheet would take for a formula gets a quotation mark in front.
const LANE_CSV = {
  lane: (lane) => lane.title,
  checkpoint: (lane) => lane.checkpoint,
  about: (lane) => lane.note,
  problems: (lane, score) => score.n,
  right: (lane, score) => score.right,
  share: (lane, score) => (score.n ? score.right / score.n : null),
  share_low_95: (lane, score) => score.interval?.[0],
  share_high_95: (lane, score) => score.interval?.[1],
  tokens: (lane, score) => score.tokens,
  tokens_per_problem: (lane, score) => score.tokensPerProblem,
  passes: (lane, score) => score.passes,
  tokens_per_forward: (lane, score) => score.tokensPerForward,
  tokens_per_second: (lane, score) => score.tokensPerSecond,
  speed_up: (lane, score) => score.speedup,
  baseline: (lane, score, model) => model.lane(model.baseline)?.title,
  problems_of_both: (lane, score) => score.pairs?.n,
  only_baseline_right: (lane, score) => score.pairs?.onlyBaseline,
  only_this_right: (lane, score) => score.pairs?.onlyThis,
  mcnemar_p: (lane, score) => score.pairs?.p,
  last_threshold: (lane, score) => (lane.family === "masks" ? score.threshold ?? "none" : null),
  threshold_changed: (lane, score) => score.turned,
  problem_batch: (lane, score, model) => model.batch,
  length_limit: (lane, score, model) => model.limit,
  family: (lane, score, model) => model.task,
  first_seed: (lane, score, model) => model.first,
  date: (lane, score, model) => model.date,
};

export function laneCsv(model) {
  const lanes = model.writers.filter((lane) => model.scores.has(lane.key));
  const row = (lane) => Object.values(LANE_CSV).map((read) => read(lane, model.scores.get(lane.key), model));
  return csv([Object.keys(LANE_CSV), ...lanes.map(row)]);
}

export function problemCsv(model) {
  const rows = model.problems.flatMap((problem, number) =>
    model.writers.map((lane) => {
      const { right, tokens, passes, reason } = model.cells[number].get(lane.key) ?? {};
      return [number + 1, problem.task, problem.seed, lane.title, lane.checkpoint, right, tokens, passes, reason];
    }),
  );
  const heads = ["problem", "family", "seed", "lane", "checkpoint", "right", "tokens", "passes", "finish_reason"];
  return csv([heads, ...rows]);
}

function csv(rows) {
  return rows.map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

function csvCell(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function boardName(model) {
  const day = model.date.slice(0, 10).replace(/[^0-9-]/g, "");
  return `mars-lens-board-${day}-${model.id.slice(0, 8).replace(/\W/g, "")}`;
}
