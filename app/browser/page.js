// The page: what its components call by name as soon as they are there (app/browser/bundle.py).

import { mountBoard } from "./compare/board.js";
import { mountLine, mountMarks, mountSettings, mountTabRequests } from "./compare/controls.js";
import { mountStage } from "./compare/stage.js";
import { mountCourse } from "./learn/course.js";
import { compareParameters, pageAddress } from "./shared/address.js";
import { keeper, mountRuns, mountSharing } from "./shared/keeper.js";
import { mountMasthead } from "./shared/masthead.js";
import { mountStep } from "./step/run-picker.js";
import { mountTradeoffs } from "./tradeoffs/view.js";

slowClocks();
window.lens = {
  masthead: mountMasthead,
  runs: mountRuns,
  sharing: mountSharing,
  line: mountLine,
  marks: mountMarks,
  settings: mountSettings,
  tabRequests: mountTabRequests,
  stage: mountStage,
  board: mountBoard,
  step: mountStep,
  tradeoffs: mountTradeoffs,
  course: mountCourse,
  // Called by name from the events of Gradio's components.
  address: pageAddress,
  compareParameters,
  keeper,
};

// Gradio's signs of progress count seconds in every animation frame, and that of the page's start never ends (6.31): an
// idle page would be drawn sixty times a second. They tick once a second instead. Modules run in the order in which the
// page names them, and this one stands before Gradio's (app/server/answer.py).
function slowClocks() {
  const frame = window.requestAnimationFrame.bind(window);
  const counts = /performance\.now\(\)\s*-.*\/\s*(1e3|1000)/;
  window.requestAnimationFrame = (draw) =>
    counts.test(Function.prototype.toString.call(draw)) ? setTimeout(draw, 1000) : frame(draw);
}
