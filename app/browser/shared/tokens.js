// Numbers, thresholds and tokens as people see them. A pass is a band of one of two tints, in turn, with its number of
// tokens at its end. With details, a token has a line under it: the longer, the surer; its style says what it was read
// from (tokens.css).

import { decoderOf, isSurerWhenLower } from "./decoders.js";
import { make, put } from "./dom.js";

export function decimals(value, places) {
  return value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
}

// Cut, not rounded, by the `score` of this name (without it, as a probability): it must not look as if it reached a
// threshold that it does not.
export function cut(value, places, score) {
  const scaled = value * 10 ** places;
  const whole = isSurerWhenLower(score) ? Math.ceil(scaled - 1e-9) : Math.floor(scaled + 1e-9);
  return decimals(whole / 10 ** places, places);
}

export const thresholdName = (threshold) => (threshold === null ? "one token per pass" : `τ ${threshold.toFixed(2)}`);
export const oneLine = (text) => text.trim().replace(/\s+/g, " ");
export const plural = (number, one, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;

// Who proposed a token that was not read off real text: the letter in the sign at the end of a band, and words.
const PROPOSED = {
  mask: ["m", "proposed by masks"],
  copy: ["c", "copied from the text"],
  draft: ["d", "drafted in an earlier pass"],
  random: ["g", "guessed"],
};

// Whether an answer is right, in a word with its sign; nothing where nobody judged it.
export const verdictWords = (right) => ({ true: "✓ right", false: "× wrong" })[right] ?? "";

// How many of these tokens, by what their positions read, each of them proposed; a model that fills masks drafts by
// them.
export function proposedBy(sources, decoder) {
  const masked = decoderOf(decoder).needs !== "causal";
  const counts = {};
  for (const source of sources) {
    const by = source === "draft" && masked ? "mask" : source;
    if (by !== "clean") counts[by] = (counts[by] ?? 0) + 1;
  }
  return counts;
}

export const proposedWords = (counts) =>
  Object.entries(counts).map(([by, count]) => `${count} ${PROPOSED[by][1]}`).join(", ");

// What the letters mean; those of `counts` alone where they are given.
export const letterWords = (counts = PROPOSED) => Object.keys(counts).map((by) => PROPOSED[by].join(": ")).join("; ");

// The band of a pass, by its number and the nodes of the tokens that it accepted. How many there are stands at its end,
// before a line break there, and who proposed those that were not read off real text.
export function bandNode(number, tokens, proposed = {}) {
  const band = put(make("span", `lens-pass ${number % 2 ? "odd" : "even"}`), ...tokens);
  if (tokens.length < 2) return band;
  const several = Object.keys(proposed).length > 1;
  const sign = ([name, many]) => `\u00a0${PROPOSED[name][0]}${several ? `\u00a0${many}` : ""}`;
  const by = Object.entries(proposed).map(sign);
  const count = make("span", "lens-count", "", { "data-count": tokens.length, "data-by": by.join("") });
  const others = proposedWords(proposed);
  const rest = others && `: ${others}; the rest read off real text`;
  count.title = `${plural(tokens.length, "token")} from this pass${rest}`;
  const last = tokens.at(-1).lastChild;
  if (last?.className === "lens-newline") last.prepend(count);
  else band.append(count);
  return band;
}

// The sureness of a score, from 0 to 1.
export const sureness = (score, name) => (isSurerWhenLower(name) ? Math.exp(-score) : Math.min(1, Math.max(0, score)));

// `kind`: "clean" (read real text only), "mask" or "draft". `sure` is from 0 to 1.
export function tokenNode(piece, { kind, sure, first, ends }) {
  const style = `--sure: ${sure.toFixed(3)}`;
  const node = make("span", `lens-token ${kind}${first ? " first" : ""}${ends ? " ends" : ""}`, "", { style });
  piece.split("\n").forEach((part, line) => {
    if (line) node.append(make("span", "lens-newline", "\n"));
    if (part) node.append(part);
  });
  return node;
}

export const givenNode = (text) => make("span", "lens-given", text, { title: "Given: no lane wrote this" });

// A piece as a word on one line: nothing in it is invisible.
export function visiblePiece(piece) {
  if (!piece) return "∅";
  if (!piece.trim() && !/[\n\t]/.test(piece)) return "␣".repeat(piece.length);
  return piece.replace(/^ /, "·").replaceAll("\n", "↵").replaceAll("\t", "⇥");
}
