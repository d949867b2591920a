// What other tabs ask of Compare. "lens:use" {choice: fields of a lane, task?, seed?} puts these settings into the second
// lane; "lens:problem" {task, seed} picks this problem. Both open the tab.

function ask(wish) {
  trigger("submit", wish);
  document.getElementById("tab-compare-button")?.click();
}
document.addEventListener("lens:use", (event) => ask({ use: event.detail }));
document.addEventListener("lens:problem", (event) => ask({ problem: event.detail }));
