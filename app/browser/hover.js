// Tells `over` what the pointer is on, null once it has left, and whether it was moved there. The page may as well have
// scrolled, or text have grown, under a pointer that rests: nothing should open for that.

let pointerAt = "";
document.addEventListener("mousemove", (event) => {
  pointerAt = spotOf(event); // after the listeners below, which are further inside
});

function whenHovered(host, over) {
  let due = false; // it rests on something that it was not moved to
  host.addEventListener("mouseover", (event) => {
    due = spotOf(event) === pointerAt;
    over(event.target, !due);
  });
  host.addEventListener("mousemove", (event) => {
    if (due && spotOf(event) !== pointerAt) {
      due = false;
      over(event.target, true);
    }
  });
  host.addEventListener("mouseleave", () => over(null, false));
}

function spotOf({ clientX, clientY }) {
  return `${clientX},${clientY}`;
}
