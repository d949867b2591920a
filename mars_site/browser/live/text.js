// From text to token ids and back, with the tokenizer of a checkpoint (@huggingface/tokenizers).

const REPLACEMENT = "\ufffd";
const LONGEST_CHARACTER = 4; // bytes of UTF-8
const [OPEN, CLOSE] = ["\ufdd2", "\ufdd3"]; // noncharacters, around the number of a control token

// A failure of a live run, in one sentence for the person.
export class LiveError extends Error {}

export class Text {
  // `Tokenizer` is the class of the package, `file` the content of tokenizer.json.
  constructor(Tokenizer, file, { before, after, special }) {
    this.tokenizer = new Tokenizer(file, { clean_up_tokenization_spaces: false });
    Object.assign(this, { Tokenizer, file, before, after, special: new Set(special), pieces: new Map() });
  }

  // The prompt as a turn of the user, opened for the answer. A control token in it is plain text, as in mars/chat.py: the
  // others then go by a name that no text has.
  encode(prompt) {
    const ids = (tokenizer, ...parts) => tokenizer.encode(parts.join(""), { add_special_tokens: false }).ids;
    const control = this.file.added_tokens.map(({ content }) => content).filter((token) => token.trim());
    if (!control.some((token) => prompt.includes(token))) return ids(this.tokenizer, this.before, prompt, this.after);
    if (prompt.includes(OPEN)) throw new LiveError("The prompt holds a character that is none of Unicode: leave it out.");
    this.renamed ??= new this.Tokenizer(this.renamedFile(), { clean_up_tokenization_spaces: false });
    return ids(this.renamed, this.named(this.before), prompt, this.named(this.after));
  }

  named(text) {
    return this.file.added_tokens.reduce((all, { id, content }) => (content.trim() ? all.replaceAll(content, `${OPEN}${id}${CLOSE}`) : all), text);
  }

  renamedFile() {
    const tokens = this.file.added_tokens.map((token) => ({ ...token, content: this.named(token.content), normalized: false }));
    const vocab = Object.fromEntries(Object.entries(this.file.model.vocab).map(([token, id]) => [tokens.find((each) => each.id === id)?.content ?? token, id]));
    return { ...this.file, added_tokens: tokens, model: { ...this.file.model, vocab } };
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
