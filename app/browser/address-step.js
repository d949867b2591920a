// The address of the tab Step through: a run, its lane, its pass. A shipped run is there for everybody; one of this
// browser only here, and only as long as it is kept.

// With `now` false something else has been asked for, and the address follows it; once `begun` is fulfilled the runs of
// this browser are there.
function stepAddress(shelf, view, { now, begun }) {
  const say = () => view.run && place?.say(stepPlace(shelf, view));
  const restore = async (asked) => {
    if (!isShipped(shelf, asked.run)) await begun;
    const refused = await stepTo(shelf, view, asked);
    say();
    return refused;
  };
  const place = window.lensAddress?.join("step", ["run", "lane", "pass"], restore, { now });
  view.root.addEventListener("step:moved", say);
  if (!place?.asked) say();
}

function isShipped(shelf, run) {
  return shelf.shipped.some(({ name }) => name === run);
}

// Show what an address asks for; the names that it cannot be asked for by.
async function stepTo(shelf, view, { run, lane, pass }) {
  if (run === undefined) return [];
  const shipped = isShipped(shelf, run);
  const all = Object.entries({ run, lane, pass }).flatMap(([name, value]) => (value === undefined ? [] : [name]));
  if (!shipped && !shelf.keeper.runs.has(run)) return all;
  const number = /^[1-9]\d{0,5}$/.test(pass ?? "") ? Number(pass) : null;
  await shelf.pick(shipped ? `shipped:${run}` : run, { lane, number });
  if (!view.run) return all;
  const refused = [];
  if (lane !== undefined && view.lane.lane.key !== lane) refused.push("lane");
  if (pass !== undefined && view.pass.number !== number) refused.push("pass");
  return refused;
}

// A pass that wrote nothing, of a prompt or a cache, has no number: the address is that of the one before.
function stepPlace({ shown }, { run, lane, pass }) {
  const number = lane.passes.slice(0, pass.index + 1).findLast(({ counted }) => counted)?.number ?? 1;
  return {
    run: shown.value.replace(/^shipped:/, ""),
    lane: lane.lane.key === usualLane(run).key ? null : lane.lane.key,
    pass: number === 1 ? null : number,
  };
}
