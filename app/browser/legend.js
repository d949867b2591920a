// What the signs mean, always in view at the foot of the stage, and the switch for rejected proposals, which the browser
// remembers.

const GHOSTS_KEY = "mars-lens:rejected";

function legend(root) {
  // The second part of a label has no room on a phone.
  const samples = [
    ["pass", ", deeper: more tokens", bands()],
    ["real text", " read", sign("clean", "abc")],
    ["masks", ", reached τ", sign("mask", "abc")],
    ["draft", ", verified", sign("draft", "abc")],
    ["score", " = length", sign("clean", "0.60", 0.6)],
    ["differs", " first", differing()],
  ];
  const list = make("ul", "lens-legend-signs");
  list.setAttribute("aria-label", "Signs");
  for (const [label, more, sample] of samples) {
    list.append(put(make("li"), sample, put(make("span", "", label), make("span", "lens-legend-more", more))));
  }
  return put(make("div", "lens-legend"), list, ghostSwitch(root));
}

function bands() {
  const row = make("span", "lens-sample");
  for (const count of [1, 2, 4]) row.append(put(make("span", `lens-pass depth-${depthOf(count)}`), sampleToken("clean", String(count), 1, true)));
  return row;
}

function sampleToken(kind, text, sure = 1, first = false) {
  return tokenNode(text, { kind, sure, first, ends: false });
}

function sign(kind, text, sure = 1) {
  return put(make("span", "lens-sample"), sampleToken(kind, text, sure));
}

function differing() {
  const token = sampleToken("clean", "a");
  token.classList.add("differs");
  return put(make("span", "lens-sample"), token);
}

function ghostSwitch(root) {
  const box = make("input");
  box.type = "checkbox";
  box.setAttribute("role", "switch");
  box.checked = kept(GHOSTS_KEY) !== "off";
  const set = () => root.classList.toggle("ghosts", box.checked);
  box.addEventListener("change", () => {
    keep(GHOSTS_KEY, box.checked ? "on" : "off");
    set();
  });
  set();
  const sample = put(make("span", "lens-sample"), ghostNode("abc", { sure: 0.6, refused: true }));
  return put(make("label", "lens-switch"), box, make("span", "", "Show rejected proposals"), sample);
}

// Storage may be full or forbidden: then the switch is not remembered, and nothing else changes.
function keep(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    return;
  }
}

function kept(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}
