PAGES.push({
  id: "cache",
  title: "Why the cache matters",
  text: [
    "To read a token, the model computes its keys and values once. If they are kept, the next pass forwards only what " +
      "is new: the tokens accepted last, and the masks. If they are thrown away, every pass reads the whole text again.",
    "The masks' own keys and values are never worth keeping: what was guessed there may turn out otherwise. Rows of a " +
      "batch gain different numbers of tokens, so each keeps a cursor of its own, and none waits for another.",
  ],
  task: "Switch the cache off, and compare the positions forwarded over the whole answer.",
  build(stage, { mars }, done) {
    const chart = make("div", "lens-learn-bars");
    const told = make("p", "lens-learn-told");
    told.setAttribute("role", "status");
    let looked = false;
    const cached = (pass) => pass.positions;
    const whole = (pass) => mars.promptTokens + pass.start + pass.proposals.length - 1;
    const most = Math.max(...mars.passes.map(whole));
    const sum = (count) => mars.passes.reduce((total, pass) => total + count(pass), 0);
    const on = make("input");
    on.type = "checkbox";
    on.checked = true;
    const draw = () => {
      const count = on.checked ? cached : whole;
      chart.replaceChildren(
        ...mars.passes.map((pass, number) => {
          const bar = make("span", "lens-learn-column");
          bar.style.height = `${(100 * count(pass)) / most}%`;
          bar.title = `pass ${number + 1}: ${count(pass)} positions`;
          return bar;
        }),
      );
      told.textContent =
        `${sum(count)} positions in ${mars.passes.length} passes` +
        (on.checked ? "." : `, ${(sum(whole) / sum(cached)).toFixed(1)} times as many as with the cache.`);
      looked ||= !on.checked;
      if (looked && on.checked) done();
    };
    on.addEventListener("change", draw);
    const toggle = put(make("label", "lens-learn-check"), on, " keep keys and values");
    put(stage, put(make("div", "lens-learn-controls"), toggle), chart, told);
    draw();
    return toggle;
  },
});
