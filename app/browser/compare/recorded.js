// The recorded run that the stage plays before anything is run, and how texts of any run part.

import { make } from "../shared/dom.js";
import { hearLines } from "../shared/messages.js";
import { decimals } from "../shared/tokens.js";
import { LaneView, letterOf } from "./lane.js";

export const LETTERS = "ABC";

// Marks the first tokens in which lanes differ, in both.
export function differ(lanes, { tokens, baseline }) {
  const several = lanes.size > 2;
  for (const key of Object.keys(tokens).filter((each) => each !== baseline)) {
    lanes.get(key).differs(tokens[key], several ? letterOf(lanes.get(baseline).lane) : "");
    lanes.get(baseline).differs(tokens[baseline], several ? letterOf(lanes.get(key).lane) : "");
    lanes.get(key).agrees("");
  }
}

// A run that comes with the app, with lanes of its own: all of it is there at once, and a replay shows it.
export class Recorded {
  constructor(text, facts, tips) {
    this.lanes = new Map();
    this.track = make("div", "lens-lanes lens-recorded");
    const hear = {
      recorded: ({ prompt, lanes }) => {
        this.prompt = prompt;
        this.track.dataset.count = lanes.length;
        lanes.forEach((lane, place) => this.add(new LaneView({ ...lane, letter: LETTERS[place] }, facts, tips)));
      },
      pass: (message) => this.lanes.get(message.lane).pass(message),
      end: (message) => this.lanes.get(message.lane).end(message),
      difference: (message) => differ(this.lanes, message),
      agreement: ({ lane, baseline, tokens }) => this.lanes.get(lane).agrees(`Same text as ${this.lanes.get(baseline).lane.title}`, tokens),
    };
    hearLines(text, (message) => hear[message.kind]?.(message));
    for (const view of this.lanes.values()) {
      const { tokensPerForward } = view.counters.state.counts;
      view.head(decimals(tokensPerForward, 1), "tokens a pass");
      view.draw();
    }
  }

  add(view) {
    this.lanes.set(view.lane.key, view);
    this.track.append(view.root);
  }
}
