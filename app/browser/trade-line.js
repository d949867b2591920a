// Questions to Python, one after the other: a value that is replaced before it is read would be an answer lost. On the
// way to an answer there may be sentences about how far it is.

const PATIENCE = 120_000; // milliseconds without a word

class TradeLine {
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
    const silence = { ticket, problem: "The server does not answer. Is it still running? Try again." };
    this.open.silence = setTimeout(() => this.hear(silence), PATIENCE);
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
