// Gradio's signs of progress count seconds in every animation frame, and that of the page's start never ends (6.31): an
// idle page would be drawn sixty times a second. They tick once a second instead. Runs before any script of Gradio's.

(() => {
  const frame = window.requestAnimationFrame.bind(window);
  const counts = /performance\.now\(\)\s*-.*\/\s*(1e3|1000)/;
  window.requestAnimationFrame = (draw) =>
    counts.test(Function.prototype.toString.call(draw)) ? setTimeout(draw, 1000) : frame(draw);
})();
