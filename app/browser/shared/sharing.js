// Saving a run on the server, for a link that opens elsewhere. `days` is how long it is kept there, 0 where it is not.

import { Questions } from "./messages.js";

export const sharing = { days: 0, questions: null };

export function mountSharing({ props, watch, submit }) {
  sharing.days = props.days ?? 0;
  sharing.questions = new Questions(submit);
  watch("value", () => {
    if (props.value) sharing.questions.hear(JSON.parse(props.value));
  });
}
