// From text to token ids and back, with the tokenizer of a checkpoint (@huggingface/tokenizers).

const REPLACEMENT = "\ufffd";
const LONGEST_CHARACTER = 4; // bytes of UTF-8

// A failure of a live run, in one sentence for the person.
export class LiveError extends Error {}

export class Text {
  // `Tokenizer` is the class of the package, `file` the content of tokenizer.json.
  constructor(Tokenizer, file, { before, after, special }) {
    this.tokenizer = new Tokenizer(file, { clean_up_tokenization_spaces: false });
    Object.assign(this, { before, after, special: new Set(special), pieces: new Map() });
    this.control = file.added_tokens.map(({ content }) => content);
  }

  // The prompt as a turn of the user, opened for the answer.
  encode(prompt) {
    const control = this.control.find((token) => prompt.includes(token));
    if (control) throw new LiveError(`The prompt holds ${control}, a control token of this model: leave it out.`);
    return this.tokenizer.encode(this.before + prompt + this.after, { add_special_tokens: false }).ids;
  }

  // The text of token ids, without special tokens.
  decode(ids) {
    const plain = ids.filter((id) => !this.special.has(id));
    return plain.length ? this.tokenizer.decode(plain, { skip_special_tokens: false }) : "";
  }

  // The text of a token alone; a special one gives its name.
  piece(id) {
    if (!this.pieces.has(id)) this.pieces.set(id, this.decode([id]) || this.tokenizer.decode([id], { skip_special_tokens: false }));
    return this.pieces.get(id);
  }
}

// Splits a text into what each token adds to it, as mars/text.py does: a token that ends inside a character adds nothing
// yet, the one that completes it adds it whole.
export class TextPieces {
  constructor(decode) {
    Object.assign(this, { decode, ids: [], context: 0, shown: 0 });
  }

  add(id) {
    this.ids.push(id);
    return this.release(LONGEST_CHARACTER - 1);
  }

  // What still waits, at the end.
  flush() {
    return this.shown < this.ids.length ? this.release(0) : "";
  }

  release(waits) {
    const before = this.decode(this.ids.slice(this.context, this.shown));
    const after = this.decode(this.ids.slice(this.context));
    if (after.endsWith(REPLACEMENT) && this.ids.length - this.shown <= waits) return "";
    this.context = this.shown;
    this.shown = this.ids.length;
    return after.slice(before.length);
  }
}
