// Messages from Python as lines of text, and questions to it.

// The messages of a text: each line is one, in JSON.
export function messagesOf(text) {
  return (text ?? "").split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

// Hands on the value of a component, a message in JSON, whenever there is another one.
export function hearValue({ props, watch }, hear) {
  watch("value", () => props.value && hear(JSON.parse(props.value)));
}

const UNANSWERED = "The server does not answer. Is it still running? Try again.";
const PATIENCE = 120_000; // milliseconds without a word

// Questions to Python, one after the other, since an answer would replace another one that is not read yet. Each answer
// has the ticket of its question.
export class Questions {
  constructor(send) {
    Object.assign(this, { send, tickets: 0, open: null, last: Promise.resolve() });
  }

  // The answer: {run}, {page}, …, or {problem: a sentence}. `more` is what else the question has to say; `onWay` hears
  // sentences about the progress, which may come before the answer.
  ask(what, more = {}, onWay = () => {}) {
    this.last = this.last.then(() => this.put({ ...more, ask: what, ticket: ++this.tickets }, onWay));
    return this.last;
  }

  put(question, onWay) {
    return new Promise((resolve) => {
      this.open = { ticket: question.ticket, resolve, onWay };
      this.wait();
      this.send(question);
    });
  }

  wait() {
    const { open } = this;
    clearTimeout(open.silence);
    open.silence = setTimeout(() => this.hear({ ticket: open.ticket, problem: UNANSWERED }), PATIENCE);
  }

  hear({ ticket, ...told }) {
    const { open } = this;
    if (open?.ticket !== ticket) return;
    if (told.progress) {
      this.wait();
      open.onWay(told.progress);
      return;
    }
    clearTimeout(open.silence);
    this.open = null;
    open.resolve(told);
  }
}
