// The page: what its components call by name as soon as they are there (app/browser/bundle.py).

import { mountBoard } from "./compare/board.js";
import { answerStart, mountLine, mountSettings } from "./compare/controls.js";
import { mountStage } from "./compare/stage.js";
import { mountSweep } from "./compare/sweep.js";
import { mountCourse } from "./learn/course.js";
import { compareParameters, pageAddress } from "./shared/address.js";
import { keeper, mountRuns, mountSharing } from "./shared/keeper.js";
import { mountMasthead } from "./shared/masthead.js";
import { mountStep } from "./step/run-picker.js";
import { mountTradeoffs } from "./tradeoffs/view.js";

window.lens = {
  masthead: mountMasthead,
  runs: mountRuns,
  sharing: mountSharing,
  line: mountLine,
  settings: mountSettings,
  stage: mountStage,
  sweep: mountSweep,
  board: mountBoard,
  step: mountStep,
  tradeoffs: mountTradeoffs,
  course: mountCourse,
  // Called by name from the events of Gradio's components.
  address: pageAddress,
  compareParameters,
  answerStart,
  keeper,
};
