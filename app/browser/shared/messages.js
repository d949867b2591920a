// What comes from Python as text, and questions to it.

// Lines, each a message in JSON, that come in a growing value, in pieces, or in both: hands on each one once. A value
// with another first line starts anew.
export class Lines {
  constructor(hear) {
    this.hear = hear;
    this.start("");
  }

  start(head) {
    this.head = head;
    this.cursor = 0; // in the value
    this.line = 0; // at the cursor
    this.heard = 0;
  }

  read(value) {
    const text = value ?? "";
    if (!this.head || !text.startsWith(this.head)) this.start(text.slice(0, text.indexOf("\n") + 1));
    for (let end = text.indexOf("\n", this.cursor); end >= 0; end = text.indexOf("\n", this.cursor)) {
      const from = this.cursor;
      this.cursor = end + 1;
      this.take(this.line++, text, from, end);
    }
  }

  // A piece, whole lines behind the first `after` ones.
  more(after, text) {
    let from = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", from)) {
      this.take(after++, text, from, end);
      from = end + 1;
    }
  }

  take(line, text, from, end) {
    if (line !== this.heard) return;
    const message = JSON.parse(text.slice(from, end));
    this.heard++;
    this.hear(message);
  }
}

const UNANSWERED = "The server does not answer. Is it still running? Try again.";
const PATIENCE = 60_000; // milliseconds
const LONG_PATIENCE = 120_000; // milliseconds without a word

// Questions, each answered under its ticket.
export class Line {
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

// Questions, one after the other: a value that is replaced before it is read would be an answer lost. On the
// way to an answer there may be sentences about how far it is.
export class TradeLine {
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
