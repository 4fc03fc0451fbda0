"""Run the demo: start everything, tell the story, print the table, stay up (or end with --once)."""

import json
import signal
import threading
import time
from collections.abc import Sequence
from typing import Any

import httpx
from rich.console import Console

from agents.demo.beginning import Beginning
from agents.demo.breakage import ALERT_NAMES, Breakage
from agents.demo.cores import cores, idle_cores, warning
from agents.demo.demo_fleet import Fleet
from agents.demo.figures import table
from agents.demo.improvement import WINNER_PROMOTED, Improvement
from agents.demo.plan import FREE_CORES, ONE_CORE, Plan
from agents.demo.processes import ChildDied
from agents.demo.scene import Scene, Step, StepFailed
from agents.demo.view import Line, View
from agents.demo.webhook_receiver import Receiver
from controlplane.contract.errors import TailwrightError

FIRST_FINDING, FIRST_GAIN = ALERT_NAMES, WINNER_PROMOTED
"""Steps of the story that are a finding, and a gain that live traffic has verified."""
RECORD = "story.json"
"""What the demo writes down of its story in its data folder, for benchmarks and for later."""


class Story:
    """A fleet and its baseline, a bad change that is named and taken back, a better configuration.

    A step ends when the control plane's API shows that it truly happened, or the story fails, naming page and logs.
    Run the steps in order with `run`; afterwards `scene.spans` holds before, during, back and after."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.steps: list[Step] = [*Beginning(scene).steps, *Breakage(scene).steps, *Improvement(scene).steps]
        self.current: Step | None = None

    def run(self) -> None:
        """Raises `StepFailed` at the first step that did not happen; `current` is that step."""
        view = self.scene.view
        for place, step in enumerate(self.steps):
            self.current = step
            view.begin(place)
            try:
                step.act()
            except BaseException:
                view.end(failed=True)
                raise
            view.end()


class MemoryWatch(threading.Thread):
    """Samples the memory of the whole demo each two seconds."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(name="memory-watch", daemon=True)
        self.peak_bytes = 0
        self._fleet = fleet
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(2):
            self.peak_bytes = max(self.peak_bytes, self._fleet.processes.resident_bytes())

    def stop(self) -> None:
        self._over.set()
        self.join()


def run_demo(plan: Plan, *, once: bool) -> int:
    """Returns the exit status: 0 when every step truly happened within the limits, else 1, saying which did not."""
    console = Console()
    if told := warning(cores()):
        console.print(told, highlight=False, soft_wrap=True)
        plan = plan.patient(ONE_CORE)
    # A look at the cores takes a second, which a plan of one rate need not wait for.
    free = idle_cores() if plan.busy_rate < plan.rate else FREE_CORES
    if (lighter := plan.beside_others(free)) != plan:
        told = f"Other processes leave {free:.1f} cores: {lighter.rate:g} requests a second instead of {plan.rate:g}"
        console.print(f"{told}; the story takes a minute or two longer.", highlight=False, soft_wrap=True)
        plan = lighter
    fleet = Fleet(plan)
    try:
        fleet.engines.check()
        fleet.clear()
    except TailwrightError as error:
        console.print(error.message, markup=False, highlight=False, soft_wrap=True)
        return 2
    receiver = Receiver(fleet.webhook_secret)
    watch = MemoryWatch(fleet)
    view = View(console, header="Tailwright demo")
    scene = Scene(plan, fleet, receiver, view)
    story = Story(scene)
    view.plan([step.title for step in story.steps])
    signal.signal(signal.SIGTERM, _interrupt)
    began = time.monotonic()
    try:
        watch.start()
        failure = _tell(story)
        took = time.monotonic() - began
        watch.stop()
        if scene.spans:
            console.print(table(scene.spans, scene.knobs))
        console.print(f"The story took {took:.0f} s; at most {watch.peak_bytes / 1e9:.2f} GB of memory were in use.")
        if told := reached(view.lines):
            console.print(told, soft_wrap=True)
        failure = failure or _over_limits(plan, took, watch.peak_bytes)
        told_of_it = record(scene, view.lines, took, watch.peak_bytes, failure)
        (plan.data_dir / RECORD).write_text(json.dumps(told_of_it, indent=1))
        if failure:
            console.print("[bold red]The story failed.[/]")
            console.print(failure, markup=False, highlight=False, soft_wrap=True)
            return 1
        console.print("Every step happened.")
        if not once:
            console.print(
                f"Everything stays up: {fleet.sign_in_link()}  (for a minute; later {fleet.url}, with the token in "
                f"{fleet.token_file('dashboard-token')}; Ctrl-C ends it)",
                soft_wrap=True,
            )
            while True:
                fleet.processes.check()
                time.sleep(2)
        return 0
    except KeyboardInterrupt:
        console.print("Ending.")
        return 0 if not once else 130
    except ChildDied as died:
        console.print(str(died), markup=False)
        return 1
    finally:
        fleet.stop()
        receiver.close()


def record(scene: Scene, lines: list[Line], took_s: float, peak_bytes: int, failure: str) -> dict[str, Any]:
    """Steps with their state and seconds, the spans with their quantiles (seconds), and what failed, if anything."""
    back_s = None
    if scene.told_at is not None and scene.back_at is not None:
        back_s = (scene.back_at - scene.told_at).total_seconds()
    return {
        "took_s": took_s,
        "peak_bytes": peak_bytes,
        "failure": failure,
        "first_finding_s": ended_s(lines, FIRST_FINDING),
        "first_gain_s": ended_s(lines, FIRST_GAIN),
        "back_s": back_s,  # From the alert that named the change until p99 was back.
        "steps": [{"title": line.title, "state": line.state, "took_s": line.took, "news": line.news} for line in lines],
        "spans": [
            {
                "name": span.name,
                "start": span.start.isoformat(),
                "end": span.end.isoformat(),
                "requests": span.requests,
                "knobs": scene.knobs.get(span.name, ""),
                "quantiles": span.quantiles,
            }
            for span in scene.spans
        ],
    }


def ended_s(lines: Sequence[Line], title: str) -> float | None:
    """When a step had happened, seconds after the beginning; None where it has not."""
    return next((line.ended_s for line in lines if line.title == title), None)


def reached(lines: Sequence[Line]) -> str:
    """How long it took from nothing to a finding, and to a gain; empty before either."""
    finding, gain = ended_s(lines, FIRST_FINDING), ended_s(lines, FIRST_GAIN)
    if finding is None:
        return ""
    told = f"From an empty data folder: the first finding (an alert that names its cause) after {finding:.0f} s"
    if gain is None:
        return f"{told}."
    return f"{told}, the first verified gain (promoted by its canary) after {gain:.0f} s."


def _tell(story: Story) -> str:
    """Tell the story; what to say of its failure, empty when every step happened."""
    with story.scene.view:
        try:
            story.run()
        except (StepFailed, ChildDied, TailwrightError, httpx.HTTPError) as error:
            return failure_text(story, error)
    return ""


def failure_text(story: Story, error: Exception) -> str:
    """The step, what was expected of it, what was seen instead, and where to look."""
    fleet, step = story.scene.fleet, story.current
    if isinstance(error, StepFailed):
        told = [f"Expected: {error.expected}", f"Seen:     {error.seen}"]
    else:
        told = [f"Seen:     {type(error).__name__}: {error}"]
    title, page, logs = ("the start", "/", ("service",)) if step is None else (step.title, step.page, step.logs)
    shown = ", ".join(str(fleet.processes.log_dir / f"{name}.log") for name in logs)
    return "\n".join([f"Step “{title}” did not happen.", *told, f"Page:     {fleet.url}{page}", f"Logs:     {shown}"])


def _over_limits(plan: Plan, took_s: float, peak_bytes: int) -> str:
    if took_s > plan.whole_limit_s:
        return f"It took {took_s:.0f} s, the limit is {plan.whole_limit_s:.0f} s."
    if peak_bytes > plan.memory_limit_bytes:
        return f"It used {peak_bytes / 1e9:.2f} GB, the limit is {plan.memory_limit_bytes / 1e9:.0f} GB."
    return ""


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
