"""What keeps the default or the winner from having a score is told, unless the node is gone: then it is asked again."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.contract.bodies.studies import Evaluation, StudyCreate
from controlplane.contract.errors import TailwrightError
from tuner.replay.replay import Stopped
from tuner.study.evaluation_pair import evaluated
from tuner.study.trial_node import ApplyFailed

SPEC = StudyCreate(pool="p", evaluation="mmlu")


def asked(*, gone: bool) -> Evaluation:
    def apply(_: Any) -> None:
        raise ApplyFailed("t1 does not run the wanted configuration after 30 s")

    def check_there(error: TailwrightError) -> None:
        if gone:
            raise Stopped(error.message)

    node: Any = SimpleNamespace(apply=apply, check_there=check_there, charge=lambda knobs: len(knobs))
    arms: dict[str, dict[str, Any]] = {"default": {}, "winner": {"max_num_seqs": 8}}
    return evaluated(SPEC, node, arms, ["true"], timeout_s=1.0, stop=threading.Event(), progress=lambda _: None)


def test_an_arm_that_cannot_be_applied_is_the_evaluations_error() -> None:
    found = asked(gone=False)
    assert found.error.startswith("of the default: t1 does not run") and not found.held


def test_a_node_that_is_gone_leaves_the_question_open() -> None:
    with pytest.raises(Stopped):
        asked(gone=True)
