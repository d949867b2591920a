// Which runs are looked at: a group of switches for every property, each with the number of runs that it would show.

class TradeFilters {
  // `onChange` hears {filter: [values]}, or null for the selection that the figure starts with.
  constructor(onChange) {
    this.onChange = onChange;
    this.root = make("details", "trade-filters");
    this.summary = make("summary");
    this.count = make("b");
    this.words = make("span", "trade-words");
    put(this.summary, make("span", "trade-summary-title", "Filters"), this.count, this.words);
    this.groups = make("div", "trade-groups");
    this.all = this.button("Show all runs", () => this.onChange({}));
    this.usual = this.button("As the figure starts", () => this.onChange(null));
    put(this.root, this.summary, this.groups, put(make("div", "trade-row"), this.all, this.usual));
  }

  button(words, act) {
    const button = make("button", "trade-button", words);
    button.type = "button";
    button.addEventListener("click", act);
    return button;
  }

  show({ filters, words, summary, usual }) {
    const focus = this.groups.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.chosen = Object.fromEntries(
      filters.map(({ name, options }) => [name, options.filter(({ on }) => on).map(({ value }) => value)]),
    );
    this.count.textContent = summary;
    this.words.textContent = words;
    this.all.disabled = !words;
    this.usual.disabled = usual;
    this.groups.replaceChildren(...filters.map((filter) => this.group(filter)));
    if (focus) this.groups.querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus();
  }

  group({ name, label, options }) {
    const group = put(make("fieldset", "trade-group"), make("legend", "", label));
    for (const { value, count, on } of options) {
      const input = make("input");
      Object.assign(input, { type: "checkbox", checked: on, disabled: !count && !on });
      input.dataset.key = `${name} ${value}`;
      input.addEventListener("change", () => this.toggle(name, value, input.checked));
      const pill = put(make("label", "trade-pill"), input, make("span", "", value), make("small", "", String(count)));
      group.append(pill);
    }
    return group;
  }

  toggle(name, value, on) {
    const values = (this.chosen[name] ?? []).filter((other) => other !== value);
    this.onChange({ ...this.chosen, [name]: on ? [...values, value] : values });
  }
}
