// The drawing library: fetched once, when figures are first looked at.

function plotly(address) {
  window.lensPlotly ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = ours(address);
    script.addEventListener("load", () => resolve(window.Plotly));
    script.addEventListener("error", () => {
      window.lensPlotly = undefined;
      script.remove();
      reject(new Error("The drawing library could not be loaded from the server. Reload the page."));
    });
    document.head.append(script);
  });
  return window.lensPlotly;
}
