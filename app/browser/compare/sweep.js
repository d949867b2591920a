// A sweep of τ on one's own prompt: AR and a lane at five thresholds, a row each, as they come.

import { announce, bringIntoView, button, handFocus, make, put, status } from "../shared/dom.js";
import { OVER, RunView } from "../shared/feed.js";
import { decimals, oneLine } from "../shared/tokens.js";

const speedWords = ({ speed }) => (speed === null ? "–" : `${decimals(speed, 2)}×`);

// label, explanation, value of a row
const COLUMNS = [
  ["tokens / pass", "Tokens ÷ passes that write.", ({ tokensPerForward }) => decimals(tokensPerForward, 2)],
  ["tokens", "Those of the whole answer.", ({ tokens }) => tokens],
  ["seconds", "Model time of the whole answer, the prompt included.", ({ seconds }) => decimals(seconds, 2)],
  ["speed of AR", "AR's time for as many tokens ÷ its own: above 1 it is faster.", speedWords],
];

class Sweep extends RunView {
  constructor(root, ended) {
    super(root);
    this.ended = ended;
    this.status = status("lens-sweep-status");
    this.name = make("caption", "lens-note");
    this.body = make("tbody");
    const heads = COLUMNS.map(([label, meaning]) => make("th", "number", label, { scope: "col", title: meaning }));
    const head = put(make("thead"), put(make("tr"), make("th", "", "τ", { scope: "col" }), ...heads));
    this.table = make("div", "lens-scroll", "", { tabindex: 0, role: "region", "aria-label": "Sweep of τ" });
    put(this.table, put(make("table", "lens-table"), this.name, head, this.body));
    const away = () => {
      handFocus("#sweep-run:enabled, #stop:enabled");
      root.hidden = true;
    };
    const close = button("lens-tool", "×", away, { "aria-label": "Close the sweep" });
    put(root, put(make("div", "lens-status-line"), this.status, close), this.table);
    root.hidden = this.table.hidden = true;
  }

  begin() {
    super.begin();
    bringIntoView(this.root);
  }

  open({ title, checkpoint }) {
    const order = "at five thresholds, one text after another; each is timed once, so speeds vary";
    const prompt = oneLine(document.querySelector("#prompt textarea").value);
    this.name.textContent = `“${prompt}”: AR, then ${title} (${checkpoint}) ${order}`;
    this.body.replaceChildren();
    this.table.hidden = false;
  }

  swept(row) {
    const name = make("th", "", row.threshold === null ? "AR" : decimals(row.threshold, 2), { scope: "row" });
    const cells = COLUMNS.map(([, , read]) => make("td", "number", read(row)));
    if (row.threshold === null) this.plain = row.text;
    const words = row.threshold !== null && row.text === this.plain ? "Answer, the same as AR's" : "Answer";
    const answer = put(make("details"), make("summary", "", words), make("p", "lens-pre", row.text));
    const below = put(make("tr"), put(make("td", "", "", { colspan: 1 + COLUMNS.length }), answer));
    const line = put(make("tr", row.threshold === null ? "lens-lane-ar" : "lens-lane-masks"), name, ...cells);
    this.body.append(line, below);
  }

  state(message) {
    if (["loading", "failed"].includes(message.state)) this.root.hidden = false; // else whoever closed it wants no more
    this.root.dataset.state = message.state;
    super.state(message);
    announce("lens:busy", OVER.includes(message.state) ? null : "Compare five τ is running above.");
  }
}

export function mountSweep({ element, props, watch, submit }) {
  const sweep = new Sweep(element.querySelector(".lens-sweep"), submit);
  watch("value", () => sweep.read(props.value));
}
