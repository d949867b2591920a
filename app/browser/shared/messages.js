// Messages from Python as lines of text, and questions to it.

// The messages of a text: each line is one, in JSON.
export const messagesOf = (text) => (text ?? "").split("\n").filter(Boolean).map((line) => JSON.parse(line));

const UNANSWERED = "The server does not answer. Is it still running? Try again.";
const PATIENCE = 120_000; // milliseconds without a word

// Questions to Python, one after the other, since an answer would replace another one that is not read yet. Each answer
// has the ticket of its question, and is the value of the component.
export class Questions {
  constructor({ props, watch, submit }) {
    Object.assign(this, { send: submit, tickets: 0, open: null, last: Promise.resolve() });
    watch("value", () => props.value && this.hear(JSON.parse(props.value)));
  }

  // The answer: {run}, {page}, …, or {problem: a sentence}. `more` is what else the question has to say.
  ask(what, more = {}) {
    this.last = this.last.then(() => this.put({ ...more, ask: what, ticket: ++this.tickets }));
    return this.last;
  }

  put(question) {
    return new Promise((resolve) => {
      const unanswered = () => this.hear({ ticket: question.ticket, problem: UNANSWERED });
      this.open = { ticket: question.ticket, resolve, silence: setTimeout(unanswered, PATIENCE) };
      this.send(question);
    });
  }

  hear({ ticket, ...told }) {
    const { open } = this;
    if (open?.ticket !== ticket) return;
    clearTimeout(open.silence);
    this.open = null;
    open.resolve(told);
  }
}
