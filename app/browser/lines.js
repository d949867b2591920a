// A value that grows by lines, each a message in JSON, and starts anew with another first line: hands on what is new.

class Lines {
  constructor(hear) {
    this.hear = hear;
    this.head = "";
    this.cursor = 0;
  }

  read(value) {
    const text = value ?? "";
    if (!this.head || !text.startsWith(this.head)) {
      this.head = text.slice(0, text.indexOf("\n") + 1);
      this.cursor = 0;
    }
    for (let end = text.indexOf("\n", this.cursor); end >= 0; end = text.indexOf("\n", this.cursor)) {
      const message = JSON.parse(text.slice(this.cursor, end));
      this.cursor = end + 1;
      this.hear(message);
    }
  }
}
