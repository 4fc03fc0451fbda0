"""What Flagger posts, read; and what it hears."""

import pytest

from controlplane.contract.changes.verdicts import Outcome
from controlplane.contract.errors import BadRequest
from controlplane.rollouts.verdicts.flagger_hook import asked_by, is_yes, read_hook

POSTED = {"name": "chat", "namespace": "prod", "phase": "Progressing", "checksum": "85d557f47b"}


def test_arms_are_flaggers_own_names() -> None:
    asked = asked_by(read_hook(POSTED))
    assert (asked.control.node, asked.canary.node) == (["chat-primary-*"], ["chat-*"])


def test_metadata_says_what_differs() -> None:
    metadata = {
        "control.node": "blue-1, blue-2",
        "canary.revision": "7",
        "metrics": "ttft,e2e",
        "tolerance": "0.2",
        "start": "2026-01-31T12:00:00Z",
        "profile": "chat",
    }
    asked = asked_by(read_hook({**POSTED, "metadata": metadata}))
    assert asked.control.node == ["blue-1", "blue-2"]
    assert (asked.canary.revision, asked.metrics, asked.tolerance) == (["7"], ["ttft", "e2e"], 0.2)
    assert asked.start is not None
    assert asked.profile == "chat"


def test_fields_of_later_versions_are_passed_over() -> None:
    assert read_hook({**POSTED, "type": "rollout", "canaryWeight": 10}).name == "chat"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({**POSTED, "name": 5}, "name"),
        ({**POSTED, "metadata": {"tollerance": "1"}}, "metadata"),
        ({**POSTED, "metadata": {"yes_when": "maybe"}}, "metadata.yes_when"),
        ({**POSTED, "metadata": {"rollout": "-3"}}, "metadata.rollout"),
        ({**POSTED, "metadata": {"rollout": "²"}}, "metadata.rollout"),
        ({**POSTED, "metadata": {"alpha": "2"}}, "metadata.alpha"),
        ({**POSTED, "metadata": {"start": "yesterday"}}, "metadata.start"),
    ],
)
def test_what_is_wrong_is_named(body: dict[str, object], field: str) -> None:
    with pytest.raises(BadRequest) as raised:
        hook = read_hook(body)
        assert hook.yes_when
        assert hook.rollout is None
        asked_by(hook)
    assert raised.value.detail["field"] == field


@pytest.mark.parametrize(
    ("yes_when", "hears"),
    [("pass", (True, False, False)), ("not_fail", (True, True, False)), ("fail", (False, False, True))],
)
def test_yes_is_what_the_hook_wants(yes_when: str, hears: tuple[bool, ...]) -> None:
    outcomes = (Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.FAIL)
    assert tuple(is_yes(yes_when, outcome) for outcome in outcomes) == hears
