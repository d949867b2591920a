// The button that turns the lights on and off: the browser's preference decides until somebody presses it.

const lights = element.querySelector(".lens-theme");
const name = () => {
  lights.textContent = document.body.classList.contains("dark") ? "Light" : "Dark";
};
lights.addEventListener("click", () => {
  document.body.classList.toggle("dark");
  name();
});
name();
