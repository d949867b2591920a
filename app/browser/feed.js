// Fetches what a live run has written, a picture at a time, until the run or its page goes on to something else. Where
// that fails, the value of the component brings the lines.

class Feed {
  constructor(lines, drawn) {
    this.lines = lines;
    this.drawn = drawn;
    this.run = null;
  }

  follow(run) {
    if (run === this.run) return;
    this.run = run;
    if (run) this.next(run);
  }

  async next(run) {
    const root = String(window.gradio_config?.root ?? ".").replace(/\/+$/, "");
    while (run === this.run) {
      const began = performance.now();
      const after = this.lines.heard;
      let answer, text;
      try {
        answer = await fetch(`${root}/pictures/${run}?after=${after}`);
        text = answer.status === 200 ? await answer.text() : null; // 204: the run is over
      } catch {
        text = null;
      }
      if (run !== this.run) return;
      if (text === null) return this.follow(null);
      if (text) {
        this.lines.more(after, text);
        this.drawn();
      }
      const again = Number(answer.headers.get("x-lens-again")) || 200;
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, began + again - performance.now())));
    }
  }
}
