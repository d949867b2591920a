// A line of text that Python sets.

const line = element.querySelector(".lens-plain");
const show = () => {
  line.textContent = props.value ?? "";
};
show();
watch("value", show);
