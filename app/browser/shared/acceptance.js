// The rule of acceptance with a threshold, as in `threshold_prefix` of mars/acceptance.py.

// The number of `count` proposals that are accepted: `fixed` at least, then from the left those of which `meets` is true, and
// none behind one that `ends` the turn. Both take the number of a proposal.
export function prefixLength(count, fixed, { meets, ends }) {
  let accepted = Math.min(fixed, count);
  while (accepted < count && !ends(accepted - 1) && meets(accepted)) accepted += 1;
  return accepted;
}
