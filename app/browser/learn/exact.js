PAGES.push({
  id: "exact",
  title: "Exact multi-token decoding",
  text: [
    "A threshold trades accuracy for speed. It need not be so: do not accept what the masks propose, but read it as a " +
      "draft in the next pass. That pass says, at every draft, what the model itself writes there. As long as the " +
      "draft is the same, it stands; where it is not, the model's own token takes its place.",
    "The text is that of one token at a time, token for token. No threshold, no loss; the price is that a proposal " +
      "must be read once more before it counts.",
  ],
  task: "Find a pass in which a draft was refused.",
  build(stage, { ar, exact }, done) {
    const text = make("div");
    const window_ = make("div");
    const told = make("p", "lens-learn-told");
    told.setAttribute("role", "status");
    const same = ar.written.join("") === exact.written.join("");
    const [controls, next] = walk(exact.passes.length, (to) => {
      const pass = exact.passes[to];
      const drafts = pass.proposals.filter(([, , source]) => source === "draft").length;
      const kept = Math.min(drafts, pass.accepted - 1);
      text.replaceChildren(written(exact, to));
      window_.replaceChildren(proposals(pass, { kept: true }));
      told.textContent = drafts
        ? `${kept} of ${drafts} drafts stood, and one token more: ${pass.accepted} gained.`
        : `No draft to check: ${pass.accepted} gained.`;
      if (kept < drafts) done();
    });
    const tokens = exact.written.length;
    put(
      stage,
      controls,
      text,
      window_,
      told,
      make(
        "p",
        "lens-learn-told",
        `${tokens} tokens in ${exact.passes.length} passes; one at a time takes ${ar.passes.length}. ` +
          `The two texts are ${same ? "the same" : "different"}.`,
      ),
    );
    controls.start();
    return next;
  },
});
