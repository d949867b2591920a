// The view as the names and values of an address, and back. A filter's values are joined by "|".

const TRADE_FILTERS = ["scale", "checkpoint", "block_size", "sft_loss", "decoder", "score", "batch_size", "hardware"];
const TRADE_START = { figure: "frontier", against: "tokens_per_forward", task: "all families", published: "" };
const TRADE_POINTS = 2;
const TRADE_NAMES = [...Object.keys(TRADE_START), "points", "run", "all", ...TRADE_FILTERS];

function addressOf(view, run) {
  const said = { run };
  for (const [name, start] of Object.entries(TRADE_START)) said[name] = (view[name] ?? start) === start ? null : view[name];
  said.points = (view.points ?? TRADE_POINTS) === TRADE_POINTS ? null : view.points;
  const chosen = Object.entries(view.chosen ?? {}).filter(([, values]) => values.length);
  if (view.chosen) said.all = chosen.length ? null : "yes";
  for (const [name, values] of chosen) said[name] = values.join("|");
  return said;
}

// The view that an address asks for, and the names whose values are none.
function viewOf(values) {
  const view = { ...TRADE_START, points: TRADE_POINTS, chosen: null };
  const refused = [];
  for (const name of Object.keys(TRADE_START)) if (values[name] !== undefined) view[name] = values[name];
  if (values.points !== undefined) {
    const points = Number(values.points);
    if (points >= 0.1 && points <= 50) view.points = points;
    else refused.push("points");
  }
  const filters = TRADE_FILTERS.filter((name) => values[name] !== undefined);
  if (filters.length || values.all) view.chosen = {};
  for (const name of filters) view.chosen[name] = values[name].split("|");
  return { view, run: values.run ?? null, refused };
}
