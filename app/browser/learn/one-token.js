PAGES.push({
  id: "one-token",
  title: "One token at a time",
  text: [
    "A language model reads everything written so far and says which token comes next. That is one forward pass: one " +
      "trip through all of its weights. The token is appended, and the next pass begins.",
    "Most of the time of a pass goes into fetching the weights, not into computing with them. So a pass that gained " +
      "several tokens would not take much longer.",
  ],
  task: "Write ten tokens, one forward pass each.",
  build(stage, { ar }, done) {
    let count = 0;
    const text = make("div");
    const told = make("p", "lens-learn-told");
    const next = button("Next forward pass", () => draw(Math.min(count + 1, ar.passes.length)));
    const draw = (to) => {
      count = to;
      text.replaceChildren(written(ar, count));
      told.textContent = `${count} forward ${count === 1 ? "pass" : "passes"}, ${count} tokens`;
      next.disabled = count === ar.passes.length;
      if (count >= 10) done();
    };
    put(stage, put(make("div", "lens-learn-controls"), next, told), text);
    draw(0);
    return next;
  },
});
