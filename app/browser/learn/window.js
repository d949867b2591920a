PAGES.push({
  id: "window",
  title: "Masks in the window",
  text: [
    "MARS appends masks to the text, here seven of them, and forwards them in the same pass. The last real token says " +
      "what comes next, as ever; each mask says what comes one place further on.",
    "The first proposal has read only real text. The others have read masks: they are guesses about a future that is " +
      "not written yet. Those from the left that are sure enough are accepted, and the masks move on.",
  ],
  task: "Fill the masks of a few passes, and find one that gained five tokens or more.",
  build(stage, { mars }, done) {
    const text = make("div");
    const window_ = make("div");
    const told = make("p", "lens-learn-told");
    let number = 0;
    const fill = button("Fill the masks", () => {
      const pass = mars.passes[number];
      window_.replaceChildren(proposals(pass));
      told.textContent = `This pass gained ${pass.accepted} ${pass.accepted === 1 ? "token" : "tokens"}.`;
      if (pass.accepted >= 5) done();
    });
    const [controls] = walk(mars.passes.length, (to) => {
      number = to;
      text.replaceChildren(written(mars, to));
      window_.replaceChildren(proposals(mars.passes[to], { shown: false }));
      told.textContent = "";
    });
    controls.prepend(fill);
    put(stage, controls, text, window_, told);
    controls.start();
    return fill;
  },
});
