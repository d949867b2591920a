// On a phone one lane is seen at a time: a button for each.

import { button, make, put } from "../shared/dom.js";

export class LanePicks {
  // `onPick` hears the key of the lane that a person picks.
  constructor(stage, onPick) {
    Object.assign(this, { stage, onPick });
    this.buttons = make("div", "lens-row lens-picks", "", { role: "group", "aria-label": "Lane in view" });
    this.root = put(make("div", "lens-pick"), this.buttons);
  }

  open(set) {
    this.lanes = set.list;
    this.buttons.replaceChildren(...this.lanes.map((view) => this.button(view)));
    const usual = this.lanes.findIndex(({ lane }) => lane.family !== "ar");
    const view = this.lanes[this.place] ?? this.lanes[usual] ?? this.lanes[0];
    if (view) this.pick(view);
  }

  button(view) {
    return button(`lens-tool lens-pick-one lens-lane-${view.lane.family}`, view.lane.title, () => {
      this.place = this.lanes.indexOf(view);
      this.pick(view);
      this.onPick(view.lane.key);
    });
  }

  pick(view) {
    this.lanes.forEach((each, place) => {
      each.root.classList.toggle("picked", each === view);
      this.buttons.children[place].setAttribute("aria-pressed", String(each === view));
    });
  }
}
