// A replay: the view alone, in a file of its own. Light and dark follow the reader's system until the button is pressed.

import { StepView } from "./view.js";

document.body.classList.toggle("dark", window.matchMedia("(prefers-color-scheme: dark)").matches);
const lights = document.querySelector(".lens-theme");
const nameLights = () => {
  lights.textContent = document.body.classList.contains("dark") ? "Light" : "Dark";
};
lights.addEventListener("click", () => {
  document.body.classList.toggle("dark");
  nameLights();
});
nameLights();
const { lane = null, number } = document.querySelector(".step").dataset;
const [run, what_if] = ["run", "what-if"].map((id) => JSON.parse(document.getElementById(id).textContent));
new StepView(document.querySelector(".step-body")).open({ run, what_if }, { lane, number: Number(number) || null });
