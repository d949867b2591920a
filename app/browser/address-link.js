// "Copy link", also where a page may not reach the clipboard, as over plain http; where nothing can be copied, the link
// is shown selected.

const MOST_SHOWN = 40; // characters of a value in a sentence
const SAID_FOR = 6_000; // milliseconds

class LinkButton {
  constructor(button, place, address) {
    this.address = address;
    this.said = make("span", "lens-link-said");
    this.said.setAttribute("role", "status");
    this.field = make("input", "lens-link-field");
    Object.assign(this.field, { type: "text", readOnly: true, hidden: true });
    this.field.setAttribute("aria-label", "Link to this view");
    put(place, this.said, this.field);
    button.addEventListener("click", () => this.copy());
  }

  async copy() {
    const { link, left } = this.address;
    const copied = (await toClipboard(link)) || byCommand(link);
    const without = left.length ? `, without the ${left.join(", ")}: too long for an address` : "";
    this.field.hidden = copied;
    this.say(`${copied ? "Link copied" : "Copy this link yourself"}${without}.`, copied);
    if (copied) return;
    this.field.value = link;
    this.field.focus();
    this.field.select();
  }

  say(sentence, goes) {
    clearTimeout(this.timer);
    this.said.textContent = sentence;
    if (goes) this.timer = setTimeout(() => (this.said.textContent = ""), SAID_FOR);
  }
}

async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // not there, or not allowed
  }
}

function byCommand(text) {
  const focused = document.activeElement;
  const area = make("textarea", "lens-link-area");
  area.value = text;
  document.body.append(area);
  area.select();
  try {
    return document.execCommand("copy");
  } catch {
    return false;
  } finally {
    area.remove();
    focused?.focus?.();
  }
}

// What of the address was not used, in one sentence; put away by its button.
class Refusals {
  constructor(place) {
    this.pairs = new Map();
    this.root = make("p", "lens-refused");
    this.root.setAttribute("role", "status");
    this.text = make("span");
    const close = make("button", "lens-tool", "×");
    close.type = "button";
    close.setAttribute("aria-label", "Put this note away");
    close.addEventListener("click", () => this.show(new Map()));
    this.close = close;
    put(this.root, this.text, close);
    place.append(this.root);
    this.show(this.pairs);
  }

  add(pairs) {
    this.show(new Map([...this.pairs, ...pairs]));
  }

  show(pairs) {
    this.pairs = pairs;
    const brief = (text) => (text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN - 1)}…` : text);
    const named = [...pairs].map(([name, value]) => `${brief(name)}=${brief(String(value ?? ""))}`).join(", ");
    this.text.textContent = named && `The rest of the address is shown; this cannot be had here: ${named}.`;
    this.close.hidden = !named;
  }
}
