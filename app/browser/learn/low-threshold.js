PAGES.push({
  id: "low-threshold",
  title: "What goes wrong at a low\u00a0τ",
  text: [
    "A lower τ gains more tokens a pass. But an accepted token stays: what comes after must build on it, right or " +
      "wrong. Neighbouring masks do not see each other's answers either, so two of them can be plausible alone and " +
      "wrong together.",
    "Here is the same problem, recorded at eight thresholds.",
  ],
  task: "Find the τ at which the first wrong answer appears.",
  build(stage, { prompt, sweep }, done) {
    const text = make("div");
    const told = make("p", "lens-learn-told");
    told.setAttribute("role", "status");
    const firstWrong = sweep.findIndex((lane) => lane.right === false);
    let seen = new Set();
    const knob = slider(
      "Threshold τ",
      0,
      sweep.length - 1,
      1,
      0,
      (place) => sweep[place].threshold.toFixed(2),
      (place) => {
        const lane = sweep[place];
        const tokens = lane.written.length;
        seen.add(place);
        text.replaceChildren(written(lane, lane.passes.length, lane.right ? "right" : "wrong"));
        told.textContent =
          `${lane.right ? "✓ right" : "× wrong"} · ${tokens} tokens in ${lane.passes.length} passes, ` +
          `${(tokens / lane.passes.length).toFixed(2)} tokens per forward`;
        if (place === firstWrong && seen.has(firstWrong - 1)) done();
      },
    );
    put(stage, make("p", "lens-learn-prompt", prompt), knob, told, text);
    knob.show();
    return knob;
  },
});
