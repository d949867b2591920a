// How many passes accepted 1, 2, 3 … tokens: a bar for each length, and the same in words.

const MOST_BARS = 8; // the last one stands for all longer ones too
const FEWEST_BARS = 4;

class LengthBars {
  constructor() {
    this.bars = make("div", "lens-lengths");
    this.bars.setAttribute("aria-hidden", "true");
    this.spoken = make("span", "lens-spoken", "none yet");
    this.lengths = [];
  }

  // `lengths[n]` passes accepted n + 1 tokens.
  draw(lengths) {
    if (lengths.length === this.lengths.length && lengths.every((count, place) => count === this.lengths[place])) return;
    this.lengths = [...lengths];
    const bins = binned(lengths);
    while (this.bars.children.length < bins.length) this.bars.append(make("span", "lens-length"));
    const most = Math.max(1, ...bins);
    bins.forEach((count, place) => {
      const bar = this.bars.children[place];
      bar.dataset.length = place + 1 === MOST_BARS && lengths.length > MOST_BARS ? `${place + 1}+` : place + 1;
      bar.style.setProperty("--share", (count / most).toFixed(3));
      bar.classList.toggle("none", count === 0);
    });
    this.spoken.textContent = inWords(lengths) || "none yet";
  }

  explain() {
    const words = inWords(this.lengths);
    return `How many tokens one pass accepted${words ? `: ${words}.` : "; their mean is tokens / forward."}`;
  }
}

function binned(lengths) {
  const bins = lengths.slice(0, MOST_BARS);
  for (const count of lengths.slice(MOST_BARS)) bins[MOST_BARS - 1] += count;
  while (bins.length < FEWEST_BARS) bins.push(0);
  return bins;
}

function inWords(lengths) {
  const parts = lengths.map((count, place) => [place + 1, count]).filter(([, count]) => count);
  return parts
    .map(([length, count]) => `${length} ${length === 1 ? "token" : "tokens"} in ${count} ${count === 1 ? "pass" : "passes"}`)
    .join(", ");
}
