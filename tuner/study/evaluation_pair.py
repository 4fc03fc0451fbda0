"""The default and the winner, each evaluated on the trial node by the command that the study names."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controlplane.contract.bodies.studies import Evaluation, EvaluationScore, StudyCreate
from controlplane.contract.errors import TailwrightError
from tuner.evaluation.evaluation_command import run_evaluation
from tuner.evaluation.evaluation_score import compared
from tuner.study.remeasure import DEFAULT, WINNER
from tuner.study.trial_node import TrialNode

log = logging.getLogger(__name__)


def evaluated(
    spec: StudyCreate,
    node: TrialNode,
    arms: Mapping[str, Mapping[str, Any]],
    command: Sequence[str],
    *,
    timeout_s: float,
    stop: threading.Event,
    progress: Callable[[str], None],
) -> Evaluation:
    """`arms`: the knobs of the default and of the winner; first runs whichever the node is nearer to. What keeps one
    from having a score is the evaluation's error, and the other is not run then. Raises Stopped."""
    scores: dict[str, EvaluationScore] = {}
    for arm in sorted((DEFAULT, WINNER), key=lambda arm: node.charge(arms[arm])):
        progress(f"evaluating the {arm} by {spec.evaluation}")
        try:
            node.apply(arms[arm])
            node.drain()
            node.reset_cache()  # Blocks of another weight format would answer.
            scores[arm] = run_evaluation(command, url=node.url, model=node.model, timeout_s=timeout_s, stop=stop)
        except TailwrightError as error:
            node.check_there(error)
            log.warning("evaluation %s of the %s: %s", spec.evaluation, arm, error.message)
            return Evaluation(
                name=spec.evaluation,
                margin=spec.evaluation_margin,
                default=scores.get(DEFAULT),
                winner=scores.get(WINNER),
                error=f"of the {arm}: {error.message}",
            )
    return compared(spec.evaluation, spec.evaluation_margin, scores[DEFAULT], scores[WINNER])
