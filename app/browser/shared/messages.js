// Messages from Python as lines of text, and questions to it.

// Hands on each line, which is a message in JSON.
export function hearLines(text, hear) {
  for (const line of (text ?? "").split("\n")) if (line) hear(JSON.parse(line));
}

const UNANSWERED = "The server does not answer. Is it still running? Try again.";
const PATIENCE = 60_000; // milliseconds
const LONG_PATIENCE = 120_000; // milliseconds without a word

// Questions to Python, any number at once: each answer has the ticket of its question.
export class Questions {
  constructor(send) {
    this.send = send;
    this.waiting = new Map();
    this.tickets = 0;
  }

  // The answer: {run}, {page}, {name}, or {problem: a sentence}. `more` is what else the question has to say.
  ask(what, text, more = {}) {
    const ticket = ++this.tickets;
    const silence = { problem: UNANSWERED };
    return new Promise((resolve) => {
      this.waiting.set(ticket, resolve);
      setTimeout(() => this.hear({ ticket, ...silence }), PATIENCE);
      this.send({ ...more, ask: what, text, ticket });
    });
  }

  hear({ ticket, ...answer }) {
    this.waiting.get(ticket)?.(answer);
    this.waiting.delete(ticket);
  }
}

// Questions to Python, one after the other, since an answer would replace another one that is not read yet. Sentences
// about the progress may come before an answer.
export class QuestionQueue {
  constructor(send) {
    this.send = send;
    this.tickets = 0;
    this.open = null;
    this.last = Promise.resolve();
  }

  // The answer, or {problem: a sentence}. `onWay` hears the sentences before it.
  ask(what, about = {}, onWay = () => {}) {
    const answer = this.last.then(() => this.put({ ask: what, about, ticket: ++this.tickets }, onWay));
    this.last = answer;
    return answer;
  }

  put(question, onWay) {
    return new Promise((resolve) => {
      this.open = { ticket: question.ticket, onWay, resolve, silence: 0 };
      this.wait();
      this.send(question);
    });
  }

  wait() {
    const { ticket } = this.open;
    clearTimeout(this.open.silence);
    const silence = { ticket, problem: UNANSWERED };
    this.open.silence = setTimeout(() => this.hear(silence), LONG_PATIENCE);
  }

  hear({ ticket, ...told }) {
    if (this.open?.ticket !== ticket) return;
    if (told.progress) {
      this.wait();
      this.open.onWay(told.progress);
      return;
    }
    const { resolve, silence } = this.open;
    clearTimeout(silence);
    this.open = null;
    resolve(told);
  }
}
