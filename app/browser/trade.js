// The tab. The value is Python's last answer.

const tradeLine = new TradeLine((question) => trigger("submit", question));
watch("value", () => {
  if (props.value) tradeLine.hear(JSON.parse(props.value));
});
const tradeKeeper = document.querySelector(".lens-keeper")?.keeper;
const tradeView = new TradeView(element.querySelector(".trade"), tradeLine, tradeKeeper, props.plotly);
const restored = async (values) => {
  const { view, run, refused } = viewOf(values);
  const first = !tradeView.shown;
  Object.assign(tradeView.view, view);
  await tradeStarted;
  if (!first) await tradeView.refresh();
  if (run || tradeView.picked) tradeView.pick(run);
  return refused;
};
tradeView.address = window.lensAddress?.join("tradeoffs", TRADE_NAMES, restored);
const tradeStarted = tradeView.begin("begin");
