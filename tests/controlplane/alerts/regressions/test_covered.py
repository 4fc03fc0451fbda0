"""The end-to-end duration beside its parts: told once, and never swallowed."""

from typing import Any

import numpy as np
import pytest

from controlplane.alerts.conditions.finding import Reading
from controlplane.alerts.conditions.regression_findings import judge_regression
from controlplane.alerts.regressions.detector import Detector
from controlplane.alerts.windows.history import History, Window
from controlplane.alerts.windows.load import LoadMeter
from controlplane.alerts.windows.material import Tail
from controlplane.alerts.windows.pool_record import NOTHING_KNOWN
from controlplane.contract.bodies.alerts import RegressionCondition

START_S, GAPS = 1_000_000.0, 20


class Pool:
    def __init__(self, sketch: Any) -> None:
        self.sketch, self.random, self.meter = sketch, np.random.default_rng(3), LoadMeter()
        self.history = History({"pool": "main"}, ("ttft", "itl", "e2e"), START_S)
        self.detector, self.open = Detector(RegressionCondition(metrics=["ttft", "itl", "e2e"])), set[str]()

    def is_firing(self, labels: dict[str, str]) -> bool:
        return labels["metric"] in self.open

    def serve(self, seconds: float, itl: float = 1.0, send_s: float = 0.0) -> None:
        """The metrics whose alert is open gather in `open`."""
        for _ in range(round(seconds / 5)):
            at_s = START_S + 5.0 * len(self.history.windows)
            first = 0.2 * self.random.lognormal(0.0, 0.4, 30)
            gaps = 0.02 * itl * self.random.lognormal(0.0, 0.4, (30, GAPS))
            values = {"ttft": first, "itl": gaps.ravel(), "e2e": first + gaps.sum(axis=1) + send_s}
            tails = {name: {"<=512": Tail.of(self.sketch(found))} for name, found in values.items()}
            self.history.windows.append(Window(at_s, self.meter.push(at_s, {"a": 30}, {}), tails))
            findings = judge_regression(
                self.detector,
                self.history,
                "main",
                at_s,
                at_s + 5,
                NOTHING_KNOWN,
                lambda labels: labels["metric"] in self.open,
            )
            for finding in findings:
                if finding.reading is Reading.BREACH:
                    self.open.add(finding.labels["metric"])
                elif finding.reading is Reading.CLEAR:
                    self.open.discard(finding.labels["metric"])


@pytest.fixture
def pool(sketch: Any) -> Pool:
    made = Pool(sketch)
    made.serve(300)
    return made


def test_what_the_gaps_explain_is_told_once(pool: Pool) -> None:
    pool.serve(60, itl=2.5)
    assert pool.open == {"itl"} and pool.detector.alarmed("e2e")
    pool.serve(120)
    assert pool.open == set()


def test_a_fault_elsewhere_is_not_hidden_by_a_small_one_in_the_gaps(pool: Pool) -> None:
    pool.serve(60, itl=2.0)
    assert pool.open == {"itl"}
    pool.serve(90, itl=2.0, send_s=4.0)
    assert pool.open == {"itl", "e2e"}
