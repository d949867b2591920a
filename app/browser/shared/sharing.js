// Saving a run on the server, for a link that opens elsewhere. `days` is how long it is kept there, 0 where it is not.

import { Line } from "./messages.js";

export const sharing = { days: 0, line: null };

export function mountSharing({ props, watch, submit }) {
  sharing.days = props.days ?? 0;
  sharing.line = new Line(submit);
  watch("value", () => {
    if (props.value) sharing.line.hear(JSON.parse(props.value));
  });
}
