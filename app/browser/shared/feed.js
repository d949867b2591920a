// Who makes the messages of a run: the server, whose stream a page follows, or a recording. A view knows no more than
// that a source hands on messages that came together, says how it is, and can be closed.
//
//   const source = liveRun("id", { hear, say, lost });
//   source.close();

import { ours } from "./dom.js";
import { messagesOf } from "./messages.js";

export const OVER = ["done", "stopped", "failed"]; // states of a run after which nothing comes
// Buttons that would end a run that is on; Python sees to #run.
const STARTS = "#follow, #sweep-run, #board-score, .board-again";
const RECONNECTING = "The connection was lost. Reconnecting …";
const LOST = "The server no longer has this run. Start it again.";
const MISSING = "This recording could not be read. Is this browser online?";

// Whether a run may start: not while one is on, nor where there is no server to write it.
export const mayStart = () => Boolean(document.querySelector("#board-score:enabled"));

// The lines of a run on the server, until it is closed. The browser connects again by itself and says how many lines it
// has; `say` hears of a connection that was lost, and null when there is one; `lost` that no more will come.
function liveRun(run, { hear, say, lost }) {
  const source = new EventSource(ours(`runs/${run}/events`));
  const leave = ({ persisted }) => persisted || navigator.sendBeacon(ours(`runs/${run}/leave`));
  source.onopen = () => say(null);
  source.onmessage = ({ data }) => hear(messagesOf(data));
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) return say(RECONNECTING);
    lost(LOST);
    addEventListener("pagehide", leave); // a browser that goes elsewhere cuts the connection first
  };
  addEventListener("pagehide", leave);
  return { close: () => (source.close(), removeEventListener("pagehide", leave)) };
}

// A run in a file: all of it comes at once, or nothing does. `read` gives the text of the file; the page is complete
// without it unless somebody asked for it, which `lost` says.
export function recordedRun(path, { hear, lost = () => {} }, read = readFile) {
  let open = true;
  const say = (act) => (said) => open && act(said);
  read(path).then((text) => messagesOf(text)).then(say(hear), say(() => lost(MISSING)));
  return { close: () => (open = false) };
}

async function readFile(path) {
  const answer = await fetch(ours(path));
  if (!answer.ok) throw new Error(path);
  return answer.text();
}

// Who makes the messages of a run that a view follows; a page without a server puts another maker here.
export const makers = { follow: liveRun };

// The base of views that draw a run, message by message: each kind of message has a method of its name. The value of a
// component says which run to follow, or why none starts. A view has `status`, the element of its sentence.
export class RunView {
  constructor(root) {
    this.root = root;
    this.sentence = ""; // of the state, which comes back once there is a connection again
    this.followed = null; // the run whose lines came last
    this.run = null; // the same while more may come
    this.source = null;
  }

  read(value) {
    for (const message of messagesOf(value)) this.hear(message);
  }

  hear(message) {
    this[message.kind]?.(message);
  }

  follow({ id }) {
    if (this.followed === id) return; // the value was read twice
    this.followed = id;
    this.begin(id);
    this.listen(id);
  }

  // Hear the lines of this run and of no other, null for none.
  listen(run) {
    this.source?.close();
    this.run = run;
    this.source = run && makers.follow(run, {
      hear: (messages) => {
        for (const message of messages) if (run === this.run) this.hear(message);
        this.picture();
      },
      say: (sentence) => run === this.run && this.say(sentence ?? this.sentence),
      lost: (sentence) => run === this.run && this.state({ state: "failed", sentence }),
    });
  }

  state({ state, sentence }) {
    this.sentence = sentence;
    this.say(sentence);
    const { run } = this;
    if (!run) return;
    const over = OVER.includes(state);
    for (const start of document.querySelectorAll(STARTS)) start.disabled = !over;
    if (!over) return;
    this.listen(null);
    this.ended(run);
  }

  say(sentence) {
    this.status.textContent = sentence;
  }

  refusal({ sentence }) {
    this.state({ state: "failed", sentence });
  }

  begin() {
    this.state({ state: "loading", sentence: "Starting …" });
  }

  // For views to fill: after lines that came at once, and when no more will come.
  picture() {}
  ended() {}
}
