// Lines, each a message in JSON, that come in a growing value, in pieces, or in both: hands on each one once. A value
// with another first line starts anew.

class Lines {
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
