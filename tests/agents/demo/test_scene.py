"""Waiting for what a step wants to see, and what is said when it does not come."""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from agents.demo import scene as scenes
from agents.demo.demo_fleet import Fleet
from agents.demo.plan import Plan
from agents.demo.processes import ChildDied
from agents.demo.run import Story, failure_text, record
from agents.demo.scene import Scene, StepFailed
from agents.demo.view import View
from agents.demo.webhook_receiver import Receiver


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(scenes, "POLL_S", 0.0)
    fleet = Fleet(replace(Plan(), data_dir=tmp_path, port=7399))
    receiver = Receiver("secret")
    view = View(Console(file=io.StringIO()))
    view.plan(["the only step"])
    view.begin(0)
    yield Scene(fleet.plan, fleet, receiver, view)
    receiver.close()


def test_the_first_value_seen_ends_the_waiting(scene: Scene) -> None:
    looks = iter([(None, "nothing"), (None, "nearly"), (7, "there")])
    assert scene.until("a seven", 60, lambda: next(looks)) == 7


def test_an_api_that_does_not_answer_yet_is_asked_again(scene: Scene) -> None:
    looks = iter([httpx.ConnectError("refused"), None])

    def look() -> tuple[int | None, str]:
        error = next(looks)
        if error is not None:
            raise error
        return 1, "there"

    assert scene.until("an answer", 60, look) == 1


def test_what_does_not_come_is_said_with_what_was_seen_instead(scene: Scene) -> None:
    with pytest.raises(StepFailed) as caught:
        scene.until("two nodes", 0.01, lambda: (None, "one node"))
    assert caught.value.expected == "two nodes within 0 s"
    assert caught.value.seen == "one node"


def test_a_child_that_died_ends_the_waiting_with_its_log(scene: Scene) -> None:
    child = scene.fleet.processes.start("short", ["-c", "print('the last words'); raise SystemExit(3)"])
    child.process.wait()
    with pytest.raises(ChildDied, match=r"(?s)short ended with status 3.*the last words"):
        scene.until("something", 60, lambda: (None, ""))
    scene.fleet.stop()


def test_a_failed_story_names_step_expectation_page_and_logs(scene: Scene) -> None:
    story = Story(scene)
    titles = [step.title for step in story.steps]
    assert titles.index("The change is taken back, judged") < titles.index("A study finds better than the old default")
    for step in story.steps:
        story.current = step
        text = failure_text(story, StepFailed("this", "that"))
        for part in (step.title, "Expected: this", "Seen:     that", f"http://127.0.0.1:7399{step.page}"):
            assert part in text
        assert step.logs and all(f"logs/{name}.log" in text for name in step.logs)


def test_a_story_that_fails_before_its_end_is_written_down(scene: Scene) -> None:
    told = record(scene, scene.view.lines, 12.5, 10**9, "Step x did not happen.")
    assert told["failure"] == "Step x did not happen." and told["back_s"] is None
    assert [step["title"] for step in told["steps"]] == ["the only step"]
