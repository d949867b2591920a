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
const PATIENCE = 60_000; // milliseconds
const LONG_PATIENCE = 120_000; // milliseconds without a word

// Questions to Python, any number at once: each answer has the ticket of its question.
export class Questions {
  constructor(send, patience = PATIENCE) {
    Object.assign(this, { send, patience, tickets: 0, waiting: new Map() });
  }

  // The answer: {run}, {page}, {name}, or {problem: a sentence}. `more` is what else the question has to say.
  ask(what, text, more = {}) {
    return this.put({ ...more, ask: what, text });
  }

  // `onWay` hears sentences about the progress, which may come before the answer.
  put(question, onWay = () => {}) {
    const ticket = ++this.tickets;
    return new Promise((resolve) => {
      this.waiting.set(ticket, { resolve, onWay });
      this.wait(ticket);
      this.send({ ...question, ticket });
    });
  }

  wait(ticket) {
    const open = this.waiting.get(ticket);
    clearTimeout(open.silence);
    open.silence = setTimeout(() => this.hear({ ticket, problem: UNANSWERED }), this.patience);
  }

  hear({ ticket, ...told }) {
    const open = this.waiting.get(ticket);
    if (!open) return;
    if (told.progress) {
      this.wait(ticket);
      open.onWay(told.progress);
      return;
    }
    clearTimeout(open.silence);
    this.waiting.delete(ticket);
    open.resolve(told);
  }
}

// Questions to Python, one after the other, since an answer would replace another one that is not read yet.
export class QuestionQueue extends Questions {
  constructor(send) {
    super(send, LONG_PATIENCE);
    this.last = Promise.resolve();
  }

  ask(what, about = {}, onWay) {
    this.last = this.last.then(() => this.put({ ask: what, about }, onWay));
    return this.last;
  }
}
