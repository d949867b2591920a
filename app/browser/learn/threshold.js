const THRESHOLDS = [...Array(96).keys()].map((step) => (step + 5) / 100);

PAGES.push({
  id: "threshold",
  title: "The threshold",
  text: [
    "How sure is sure enough? The threshold τ decides. From the left, a proposal is accepted while its score reaches " +
      "τ; the first that does not ends the pass, and what stands behind it is thrown away, however sure it was.",
    "The first proposal needs no score: it is the token that the model would have written anyway. With τ above " +
      "everything, that one token is all a pass gains.",
  ],
  task: "For one pass, find a τ that accepts exactly three tokens, and one that accepts at least three more.",
  build(stage, { mars }, done) {
    const window_ = make("div");
    const told = make("p", "lens-learn-told");
    let number = 0;
    let threshold = 0.95;
    let reached = new Set();
    const draw = () => {
      const pass = mars.passes[number];
      const count = acceptedAt(pass, threshold);
      reached.add(count);
      window_.replaceChildren(proposals(pass, { accepted: count, threshold }));
      told.textContent = `${count} of ${pass.proposals.length} accepted.`;
      if (reached.has(3) && Math.max(...reached) >= 6) done();
    };
    const knob = slider(
      "Threshold τ",
      THRESHOLDS[0],
      THRESHOLDS.at(-1),
      0.01,
      threshold,
      (value) => value.toFixed(2),
      (value) => {
        threshold = value;
        draw();
      },
    );
    // Begin at a pass in which there is something to choose.
    const counts = (pass) => new Set(THRESHOLDS.map((value) => acceptedAt(pass, value)));
    const spread = (pass) => counts(pass).has(3) && Math.max(...counts(pass)) >= 6;
    const begin = Math.max(0, mars.passes.findIndex(spread));
    const [controls] = walk(
      mars.passes.length,
      (to) => {
        number = to;
        reached = new Set();
        draw();
      },
      begin,
    );
    put(stage, knob, controls, window_, told);
    knob.show();
    controls.start();
    return knob;
  },
});
