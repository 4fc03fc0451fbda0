"""Run the demo: start everything, tell the story, print the table, stay up (or end with --once)."""

import signal
import threading
import time

import httpx
from rich.console import Console

from controlplane.contract.errors import TrimtabError
from controlplane.demo.figures import table
from controlplane.demo.fleet import Fleet
from controlplane.demo.plan import Plan
from controlplane.demo.processes import ChildDied
from controlplane.demo.receiver import Receiver
from controlplane.demo.story import StepFailed, Story
from controlplane.demo.view import View


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
    fleet = Fleet(plan)
    try:
        fleet.engines.check()
        fleet.clear()
    except TrimtabError as error:
        console.print(error.message, markup=False, highlight=False, soft_wrap=True)
        return 2
    receiver = Receiver(fleet.webhook_secret)
    watch = MemoryWatch(fleet)
    view = View(console, header="Trimtab demo")
    story = Story(plan, fleet, receiver, view)
    view.plan([title for title, _ in story.steps])
    signal.signal(signal.SIGTERM, _interrupt)
    began = time.monotonic()
    try:
        watch.start()
        failure = _tell(story, view)
        took = time.monotonic() - began
        watch.stop()
        if story.spans:
            console.print(table(story.spans, story.knobs))
        console.print(f"The story took {took:.0f} s; at most {watch.peak_bytes / 1e9:.2f} GB of memory were in use.")
        failure = failure or _over_limits(plan, took, watch.peak_bytes)
        if failure:
            console.print(f"[bold red]The story failed.[/] {failure}", highlight=False)
            console.print(f"Logs: {fleet.processes.log_dir}")
            return 1
        console.print("Every step happened.")
        if not once:
            console.print(
                f"Everything stays up: {fleet.url}/login?token={fleet.token('dashboard-token')}  (Ctrl-C ends it)",
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


def _tell(story: Story, view: View) -> str:
    """Tell the story; the text of its failure, empty when every step happened."""
    with view:
        try:
            story.run()
        except (StepFailed, ChildDied, TrimtabError, httpx.HTTPError) as error:
            step = next((line.title for line in view.lines if line.state == "failed"), "the start")
            return f"Step “{step}”: {error}"
    return ""


def _over_limits(plan: Plan, took_s: float, peak_bytes: int) -> str:
    if took_s > plan.whole_limit_s:
        return f"It took {took_s:.0f} s, the limit is {plan.whole_limit_s:.0f} s."
    if peak_bytes > plan.memory_limit_bytes:
        return f"It used {peak_bytes / 1e9:.2f} GB, the limit is {plan.memory_limit_bytes / 1e9:.0f} GB."
    return ""


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
