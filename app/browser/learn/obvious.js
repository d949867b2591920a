PAGES.push({
  id: "obvious",
  title: "What if the next words are obvious?",
  text: [
    "Many tokens are hardly a choice. After “3 * 4 =” comes a space and then “12”; the second half of a long word " +
      "follows from the first. The model's probability for them is close to 1.",
    "Every token below cost a whole pass. Choose one, and its underline shows how sure the model was: the darker, the surer.",
  ],
  task: "Find five tokens of which the model was at least 99 % sure: choose the ones you think are obvious.",
  build(stage, { ar }, done) {
    const found = new Set();
    const told = make("p", "lens-learn-told", "None found yet.");
    told.setAttribute("role", "status");
    const text = make("div", "lens-learn-text");
    ar.passes.forEach((pass, number) => {
      const [, score, , ends] = pass.proposals[0];
      const token = make("button", "lens-learn-guess", ends ? "end" : visible(ar.written[pass.start]));
      token.type = "button";
      token.addEventListener("click", () => {
        token.style.setProperty("--sure", score);
        token.classList.add("opened", score >= 0.99 ? "sure" : "unsure");
        if (score >= 0.99) found.add(number);
        told.textContent = `The model was ${(100 * score).toFixed(score > 0.995 ? 1 : 0)} % sure. Found: ${found.size} of 5.`;
        if (found.size >= 5) done();
      });
      text.append(token);
    });
    put(stage, text, told);
    return text;
  },
});
