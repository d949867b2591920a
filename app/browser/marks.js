// The marks under the slider: a press takes it there. Who uses the keyboard or a screen reader has the slider itself.

const marks = element.querySelector(".lens-marks");
for (const value of props.marks) {
  const mark = make("button", "lens-mark", String(value));
  mark.type = "button";
  mark.tabIndex = -1;
  mark.title = `τ = ${value}, as in the paper`;
  mark.style.setProperty("--at", (value - props.lowest) / (1 - props.lowest));
  mark.addEventListener("click", () => {
    const range = document.querySelector("#threshold input[type=range]");
    range.value = value;
    range.dispatchEvent(new Event("input", { bubbles: true }));
  });
  marks.append(mark);
}
