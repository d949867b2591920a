// Above the figure: which one, against what, on which problems, with what was published, and how much may be lost.

class TradeControls {
  // `onChange` hears what has changed of the view.
  constructor(onChange) {
    this.onChange = onChange;
    this.root = make("div", "trade-controls");
    this.figure = this.select("Figure", "figure");
    this.against = this.select("Against", "against");
    this.task = this.select("Problems", "task");
    this.layer = this.select("Which published numbers", "published");
    this.published = make("input");
    this.published.type = "checkbox";
    this.published.addEventListener("change", () => {
      this.onChange({ published: this.published.checked ? this.layer.value : "" });
    });
    this.switch = put(make("label", "trade-switch"), this.published, make("span", "", "Published curves"));
    this.points = make("input", "trade-points");
    this.points.type = "number";
    this.points.addEventListener("change", () => this.allow());
    this.allowed = put(make("label", "trade-allow"), "Allow me at most", this.points, "points of accuracy lost");
    const layer = put(make("div", "trade-layer"), this.switch, this.layer.parentElement);
    put(this.root, ...[this.figure, this.against, this.task].map((select) => select.parentElement), layer);
  }

  select(label, name) {
    const select = make("select", "trade-select");
    select.addEventListener("change", () => this.onChange({ [name]: select.value }));
    put(make("label", "trade-field"), make("span", "", label), select);
    return select;
  }

  begin({ figures, points }) {
    fill(this.figure, figures);
    Object.assign(this.points, { min: points.least, max: points.most, step: 0.1, value: points.value });
  }

  allow() {
    const points = this.points.valueAsNumber;
    if (this.points.checkValidity() && Number.isFinite(points)) this.onChange({ points });
    else this.points.reportValidity();
  }

  show(view, { axes, against, tasks, task, layers, layer }) {
    this.figure.value = view.figure;
    fill(this.against, axes, against);
    this.against.parentElement.hidden = axes.length < 2;
    fill(this.task, tasks, task);
    this.task.parentElement.hidden = tasks.length < 2;
    const names = layers.map((name) => ({ value: name, label: name }));
    fill(this.layer, names, layer || this.layer.value);
    this.published.checked = Boolean(layer);
    this.published.disabled = layers.length === 0;
    this.switch.title = layers.length ? "From arXiv 2604.07023: other models, no intervals" : "Nothing published fits";
    this.layer.parentElement.hidden = !layer || layers.length < 2;
    if (document.activeElement !== this.points) this.points.value = view.points;
  }
}

function fill(select, options, value = select.value) {
  select.replaceChildren(...options.map((option) => new Option(option.label, option.value)));
  if (options.some((option) => option.value === value)) select.value = value;
}
