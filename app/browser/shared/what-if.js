// What another threshold would have accepted in a pass: `Steps` of app/runs/what_if.py, [threshold in hundredths, tokens
// from there on].

export const HUNDREDTHS = 100;

export function acceptedAt(steps, threshold) {
  const hundredths = Math.round(HUNDREDTHS * threshold);
  return steps.findLast(([from]) => from <= hundredths)[1];
}
