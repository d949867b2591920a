// Why a proposal was accepted or not, in sentences: what records call `Reason` (mars/records.py).

import { isSurerWhenLower } from "./decoders.js";

// A score beside τ, as the end of a sentence.
function reaching(score, met) {
  if (isSurerWhenLower(score)) return `its ${score} is ${met ? "not above" : "above"} τ`;
  const name = ["probability", "calibrated"].includes(score) ? "score" : score;
  return met ? `its ${name} reaches τ` : `its ${name} does not reach τ`;
}

// What is said of a pass at a threshold that has one proposal, where the window fits the text; else nothing.
export const noMask = ({ window }, threshold, proposals) =>
  window === "auto" && threshold !== null && proposals === 1 ? " This pass read no mask, since none would pay." : "";

const SENTENCES = {
  first: ({ none = "" }) =>
    `It read only real tokens, so it is the autoregressive token, which is always accepted.${none}`,
  right: ({ threshold = null, source }) =>
    `Every draft before it ${threshold === null ? "matched the model's own choice" : "passed the check"}, ` +
    "so it was kept." +
    (source === "copy" ? " The last of them was copied from the text." : ""),
  met: ({ score, accepted }) => `It read masks; ${accepted ? "accepted" : "filled"} because ${reaching(score, true)}.`,
  rule: ({ score, accepted }) =>
    `${accepted ? "Accepted" : "Refused"} by this decoder's own rule, although ${reaching(score, !accepted)}.`,
  below: ({ score }) => `Refused: ${reaching(score, false)}.`,
  behind: () => "Not accepted: a proposal to its left was refused.",
  "wrong draft": ({ threshold = null }) =>
    `Refused: it read a draft that ${threshold === null ? "is not the model's own choice" : "did not pass the check"}.`,
  ended: () => "Not accepted: the answer ends to its left.",
  kept: () => "Kept as a draft: the next pass reads it and verifies it.",
  unsure: () => "Not kept as a draft: the model was not sure enough of it.",
  // Of earlier versions.
  surest: () => "Filled in this pass: it was the surest of the masks.",
  filled: () => "Filled in an earlier pass; it stays filled.",
  open: () => "Still a mask: others were surer.",
};

// `reason` is undefined for what an earlier version recorded. `score` is the name of the score, `source` what was read,
// `accepted` says whether the proposal was accepted at the `threshold`, `ends` whether the turn ends there.
export function sentenceOf(reason, about) {
  const end = about.ends ? "End of the turn. " : "";
  if (reason) return end + SENTENCES[reason](about);
  const fate = about.accepted ? "Accepted" : "Not accepted";
  return `${end}${fate}. An earlier version recorded this run, without reasons.`;
}

// True if the pass refused this proposal; it did not look at those behind it.
export function isRefused(reasons, place) {
  const reason = reasons[place];
  const wrong = reason === "wrong draft" && reasons.indexOf(reason) === place;
  return wrong || ["below", "rule", "unsure"].includes(reason);
}
