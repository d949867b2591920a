// Questions to Python, each answered under its ticket.

const PATIENCE = 60_000; // milliseconds

class Line {
  constructor(send) {
    this.send = send;
    this.waiting = new Map();
    this.tickets = 0;
  }

  // The answer: {run}, {page}, or {problem: a sentence}.
  ask(what, text) {
    const ticket = ++this.tickets;
    const silence = { problem: "The server does not answer. Is it still running? Try again." };
    return new Promise((resolve) => {
      this.waiting.set(ticket, resolve);
      setTimeout(() => this.hear({ ticket, ...silence }), PATIENCE);
      this.send({ ask: what, text, ticket });
    });
  }

  hear({ ticket, ...answer }) {
    this.waiting.get(ticket)?.(answer);
    this.waiting.delete(ticket);
  }
}
