"""Compare: one prompt, two or three lanes, a threshold that acts while they write."""

from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr
from gradio.components import Component

from app.compare import problems, sweep
from app.compare.comparison import Question
from app.compare.lane_choice import LANE_KEYS
from app.compare.runner import Runner
from app.models.pairs import Pair
from app.scheduling import FULL_SPEED, PACES, rate
from app.site import RECORDED
from app.tabs import parts
from app.tabs.lanes import LaneRow, build_count
from app.tabs.question import QuestionForm, build_models
from mars.checkpoint.calibration import Start, scores_in
from mars.schema import as_json, between, checked

_SETTINGS = (
    '<button type="button" class="lens-settings-button" aria-controls="settings" aria-expanded="false">'
    "Settings</button>"
)
_NEXT_RUN = (
    '<p class="lens-next-run" role="status">τ and the animation speed act at once; other changes act on the next run.'
    "</p>"
)
"""Shown while a run is on (app/browser/compare/stage.js)."""

PACE = between(float, FULL_SPEED, max(PACES.values()))
_CHOSEN = "(key) => { lens.address()?.settings.open({ models: key }); }"
_THRESHOLD = between(float, parts.LOWEST, parts.ONE_TOKEN)
_ENDS = '<div class="lens-ends"><span>◂ more per pass</span><span>one per pass ▸</span></div>'


class Tab:
    """The components of the tab, in the current Blocks, for these `pairs` and a `note` on them, and what they do."""

    def __init__(self, runner: Runner, pairs: Sequence[Pair], note: str = "") -> None:
        self.runner = runner
        self.pairs = tuple(pairs)
        self.starts = {pair.key: scores_in(runner.models.sources.get(pair.mars, "")).default for pair in pairs}
        first = self.pairs[0]
        with gr.Row(elem_classes="lens-controls"):
            self.form = QuestionForm(first.tasks, questions=not all(pair.tasks for pair in pairs))
            self._bar()
        with gr.Column(elem_classes="lens-settings", elem_id="settings"):
            self._settings_panel(first, note)
        self.prompt, self.family, self.seed, self.answer = self.form.shown
        self.sweep = parts.drawn("sweep", '<div class="lens-sweep"></div>', elem_id="sweep")
        recorded = RECORDED if len(pairs) > 1 else None
        self.stage = parts.drawn("stage", '<div class="lens-stage"></div>', elem_id="stage", recorded=recorded)

    @property
    def addressable(self) -> dict[str, Component]:
        """The components that an address may set, by short names that must not change."""
        found: dict[str, Component] = {
            "task": self.family,
            "seed": self.seed,
            "prompt": self.prompt,
            "start": self.form.start,
            "tau": self.threshold,
            "limit": self.limit,
            "pace": self.pace,
            "lanes": self.count,
            "models": self.models,
        }
        return found | {f"{lane.key}.{name}": part for lane in self.row.lanes for name, part in lane.named.items()}

    def pair(self, key: object) -> Pair:
        """The pair of this key, or the first."""
        return next((pair for pair in self.pairs if pair.key == key), self.pairs[0])

    def _bar(self) -> None:
        """The controls beside the prompt, always in view."""
        with gr.Column(scale=2, min_width=220, elem_classes="lens-threshold"):
            start = self.starts[self.pairs[0].key]
            value = parts.slider_value(start)
            self.reading = parts.plain("threshold-reading", threshold_words(value), "Threshold")
            gr.HTML(html_template=_ENDS, apply_default_css=False)
            label = "Live threshold τ: acts on the lanes that follow it"
            self.threshold = gr.Slider(
                parts.LOWEST, parts.ONE_TOKEN, value=value, step=0.01, label=label, buttons=[], elem_id="threshold"
            )
            visible = any(one.stops for one in self.starts.values()) or parts.HIDDEN
            self.lost = parts.plain("threshold-lost", stop_words(value, start), visible=visible)
        with gr.Row(elem_classes="lens-go"):
            self.run = gr.Button("Run", variant="primary", size="lg", elem_id="run", min_width=10)
            with gr.Row(elem_classes="lens-stop-or-follow"):
                self.stop = gr.Button("Stop", size="lg", interactive=False, elem_id="stop", min_width=10)
                self.follow = gr.Button("Follow up", size="lg", elem_id="follow", min_width=10)
            self.settings = parts.drawn("settings", _SETTINGS)
            self.sweep_run = gr.Button("Compare five τ", size="sm", min_width=10, elem_id="sweep-run")

    def _settings_panel(self, first: Pair, note: str) -> None:
        """The panel of settings, open or closed; the browser remembers which (browser/compare/controls.js)."""
        self.models = build_models(self.pairs, note)
        gr.HTML(html_template=_NEXT_RUN, apply_default_css=False)
        with gr.Row(elem_classes="lens-knobs"):
            label = "Animation speed (measured times do not change)"
            self.pace = gr.Radio(list(PACES.items()), value=first.pace, label=label, elem_id="pace", min_width=10)
            self.count = build_count()
            self.limit = gr.Number(first.max_new_tokens, label="Length limit", elem_id="limit", min_width=10)
        self.form.choose()
        self.row = LaneRow(self.count, list(self.runner.models.sources), first)

    def connect(self, kept: Component) -> None:
        """Connect every event; finished runs go to `kept`. A choice of models is an address, which sets all else."""
        self.form.connect()
        about = [self.prompt, self.form.start, self.family, self.seed]
        inputs = [*about, self.threshold, self.pace, self.limit, *self.row.inputs]
        start: dict[str, Any] = {"queue": self.runner.elsewhere, **parts.QUIET}
        begun, presses = [self.run, self.stop, self.form.start], [self.run.click, self.follow.click, self.stage.select]
        gr.on(presses, self._start, inputs, [self.stage, *begun], **start)
        self.sweep_run.click(self._start, inputs, [self.sweep, *begun], **start)
        self.stop.click(self.end_run, queue=False, **parts.QUIET)
        shown = [self.reading, self.lost]
        self.threshold.input(self.steer, [self.threshold, self.models], shown, queue=False, **parts.LATEST)
        self.pace.input(self._set_pace, self.pace, queue=False, **parts.LATEST)
        for changed in self.row.connect(self.models, self.pair):
            self._introduce_after(changed.then)
        self._introduce_after(self.count.input)
        self.models.input(None, self.models, None, js=_CHOSEN, **parts.QUIET)
        for view in (self.stage, self.sweep):
            self._rest_after(view.submit(self._ended, None, [self.run, self.stop, kept], queue=False, **parts.QUIET))

    def settle(self, event: Any) -> None:
        """After `event`, which sets the controls, read the slider and show the lanes; a run that is on keeps its τ."""
        read = event.then(self._read_slider, [self.threshold, self.models], [self.reading, self.lost], **parts.QUIET)
        self._introduce_after(read.then)

    def _introduce_after(self, listen: Callable[..., Any]) -> None:
        self._rest_after(listen(self._introduce, self.row.inputs, self.stage, **parts.LATEST))

    def _rest_after(self, event: Any) -> None:
        inputs = [self.threshold, self.models, *self.row.inputs]
        event.then(self._rest, inputs, [self.threshold, self.reading, self.lost], queue=False, **parts.QUIET)

    def _introduce(self, request: gr.Request, *lanes: Any) -> Any:
        """The idle stage with these lanes; nothing while a run is on."""
        if self.runner.sessions.live(str(request.session_hash)):
            return gr.skip()
        try:
            return self.runner.introduce(self.row.read(*lanes))
        except ValueError as error:
            return parts.refusal(error)

    def _rest(self, request: gr.Request, slider: float, key: object, *lanes: Any) -> tuple[Any, ...]:
        """The slider, which rests where no lane follows it, and its words; nothing while a run is on."""
        if self.runner.sessions.live(str(request.session_hash)):
            return (gr.skip(),) * 3
        try:
            followed = any(choice.steered for choice in self.row.read(*lanes))
        except ValueError:  # which `_introduce` tells
            return (gr.skip(),) * 3
        words = self._read_slider(slider, key) if followed else ("no lane follows it", "")
        return gr.update(interactive=followed), *words

    def _start(
        self,
        event: gr.EventData,
        request: gr.Request,
        prompt: str,
        start: str,
        task: str,
        seed: float,
        slider: float,
        pace: float,
        limit: int | None,
        *lanes: Any,
    ) -> tuple[Any, ...]:
        """Start what was pressed; the line with its identity, the buttons, and the start of the answer if it changes.

        *Follow up* runs the prompt as the next turn of the last run's conversation: each lane reads its own answers.
        The sweep answers it by AR and at five thresholds, in the lane that follows the slider. The stage runs it again
        with the start that its event names.
        """
        branch = event._data if event.target is self.stage and isinstance(event._data, str) else None
        session = str(request.session_hash)
        try:
            pace = rate(checked(PACE, pace, "The pace"))
            choices = self.row.read(*lanes)
            fields: dict[str, Any] = {
                "prompt": prompt,
                "answer_prefix": start if branch is None else branch,
                "threshold": threshold_of(slider),
                "max_new_tokens": limit or 0,
                "limits": self.runner.limits,
            }
            if event.target is not self.follow:
                question = Question(**fields, problem=problems.asked(prompt, task, seed))
            elif last := self.runner.sessions.last(session):
                question = Question.following(last, LANE_KEYS[: len(choices)], **fields)
            else:
                raise ValueError("There is no conversation to go on with. Press Run first.")
            if event.target is self.sweep_run:
                identity = sweep.start(self.runner, session, question, choices)
            else:
                identity = self.runner.start(session, question, choices, pace)
        except ValueError as error:
            return parts.refusal(error), gr.skip(), gr.skip(), gr.skip()
        return *parts.begun(identity), gr.skip() if branch is None else branch

    def _ended(self, event: gr.EventData, request: gr.Request) -> tuple[Any, ...]:
        """Handle the event that the page has read the end of a run: the buttons, and the run if it had a pass."""
        identity, session = event._data if isinstance(event._data, str) else "", str(request.session_hash)
        run, last = self.runner.result(session, identity), self.runner.sessions.last(session)
        document: Any = gr.skip()
        if run and not (last and run.id == last.id):
            self.runner.sessions.keep(session, request.client.host if request.client else "", run)
            document = as_json(run)
        # Last, since that takes a while: the buttons of a later run that has begun stay as they are.
        buttons = (gr.skip(), gr.skip()) if self.runner.sessions.live(session) else parts.ended()
        return *buttons, document

    def end_run(self, request: gr.Request) -> None:
        if live := self.runner.sessions.live(str(request.session_hash)):
            live.stop()

    def steer(self, value: float, key: object, request: gr.Request) -> tuple[str, str]:
        """Handle a move of the slider, which acts on a run that is on; the same as `_read_slider`."""
        found = self._read_slider(value, key)
        if live := self.runner.sessions.live(str(request.session_hash)):
            live.slider.threshold = threshold_of(value)
        return found

    def _read_slider(self, value: float, key: object) -> tuple[str, str]:
        """The value in words, and what was measured there of the pair `key`."""
        with parts.refusing():
            return threshold_words(value), stop_words(value, self.starts[self.pair(key).key])

    def _set_pace(self, value: float, request: gr.Request) -> None:
        with parts.refusing():
            pace = rate(checked(PACE, value, "The pace"))
            if live := self.runner.sessions.live(str(request.session_hash)):
                live.passes_per_second = pace


def threshold_of(value: object) -> float | None:
    """The threshold at this value of the slider; ValueError if it has no such value."""
    threshold: float = checked(_THRESHOLD, value, "The threshold")
    return None if threshold == parts.ONE_TOKEN else threshold


def stop_words(value: object, start: Start) -> str:
    """What was measured at this value of the slider with a fixed window, beside AR; or where it was measured."""
    stop = next((stop for stop in start.stops if stop.threshold == threshold_of(value)), None)
    if stop is None:
        measured = sorted(f"{stop.threshold:.2f}" for stop in start.stops if stop.threshold is not None)
        return f"Accuracy and speed were measured at τ {', '.join(measured)}." if measured else ""
    points, low, high = stop.points
    change = f"{points:+.1f} points against AR [{low:+.1f}, {high:+.1f}] (n\u00a0=\u00a0{stop.n:,})".replace("-", "−")
    fast, passes = "{:.1f}× AR's speed [{:.1f}, {:.1f}]", f"{stop.tokens_per_forward:.1f} tokens a pass"
    speed = fast.format(*stop.speed) if stop.speed else passes
    where = "On problems like MARS's training" + ("" if stop.threshold is None else ", masks fixed")
    return f"{where}: {change}, {speed}"


def threshold_words(value: object) -> str:
    threshold = threshold_of(value)
    return "one token per pass" if threshold is None else f"τ = {threshold:.2f}"
