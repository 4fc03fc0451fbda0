"""What a rollout's page says of its evidence: as the judge wrote it, of older services, and of waves."""

import copy
import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from controlplane.contract.bodies.rollouts import Rollout, RolloutPhase
from tests.web.part_html import NOW, part_html
from tests.web.rollouts.judged_evidence import JUDGED_FROM, SPEC, judged
from web.rollouts.evidence_rows import ratio_of, rows_of
from web.rollouts.judgements import judgements
from web.rollouts.rollout_page import PAGE


def rollout(evidence: dict[str, Any], **more: Any) -> Rollout:
    return Rollout.model_validate(
        {
            "id": 3,
            "phase": RolloutPhase.JUDGING,
            "spec": SPEC,
            "canary_nodes": ["gpu-1"],
            "control_nodes": ["gpu-2", "gpu-3"],
            "evidence": evidence,
            "created_by": "ann",
            "created_at": NOW - timedelta(hours=1),
            "started_at": NOW - timedelta(minutes=6),
            **more,
        }
    )


class OneRollout:
    def __init__(self, evidence: dict[str, Any], **more: Any) -> None:
        self.found = rollout(evidence, **more)

    def rollout(self, _: int) -> Rollout:
        return self.found


def shown(evidence: dict[str, Any], **more: Any) -> str:
    return part_html(PAGE, "rollout_evidence", OneRollout(evidence, **more), rollout="3")


def finding(text: str, name: str) -> str:
    row = re.search(rf'<tr data-finding="([^"]*)"><th scope="row">{re.escape(name)}</th>', text)
    assert row is not None, name
    return row[1]


@pytest.mark.slow
def test_an_equal_canary_is_not_worse_row_by_row_with_its_interval_and_guardrails() -> None:
    evidence = judged()
    text = shown(evidence)
    assert finding(text, "TTFT typical") == "not worse" and "TTFT typical: Not worse" in text
    assert finding(text, "TTFT tail") == finding(text, "Served share") == "no harm shown"
    assert finding(text, "TTFT p95 at most 5.00 s") == "not broken so far"
    assert finding(text, "TTFT &lt;=128") == "not worse"
    line = evidence["metrics"]["ttft"]["lines"]["typical"]
    (row,) = (row for row in rows_of(evidence).judged if row.name == "TTFT typical")
    assert row.not_worse == 1.0 and row.harm == 0.0
    bar = row.bar
    assert bar is not None and bar.low < bar.ratio < bar.high < bar.zones[2].share
    assert line["interval"][1] < line["worse_beyond"] == pytest.approx(1.25, abs=0.01)
    assert "canary over control, with its interval" in text and "interval-band" in text


@pytest.mark.slow
def test_a_slower_canary_is_worse_and_waits_for_nothing() -> None:
    evidence = judged(1.8, 90)
    text = shown(evidence)
    assert evidence["verdict"] == "worse" and finding(text, "TTFT typical") == "worse"
    assert 'class="waits"' not in text
    (row,) = (row for row in rows_of(evidence).judged if row.name == "TTFT typical")
    assert row.bar is not None and row.bar.low > row.bar.zones[2].share and row.harm == 1.0


def test_what_is_not_decided_says_what_it_waits_for_and_how_long() -> None:
    evidence = judged(1.0, 3)
    text = shown(evidence)
    assert evidence["verdict"] is None and "not decided yet" in text
    assert "TTFT is still to be shown not worse: " in text
    assert "more of the same traffic would show" in text
    ended = shown(evidence, phase=RolloutPhase.ROLLED_BACK, ended_at=NOW)
    assert "more of the same traffic" not in ended and "inconclusive" in ended


def test_a_canary_without_a_past_is_told_by_its_counts() -> None:
    text = shown(judged(1.0, 20, past=False))
    assert "above the control&#39;s p90: canary " in text and "counted, so without a ratio" in text
    assert "interval-band" not in text and 'class="verdict strip"' not in text


def test_what_is_counted_has_both_arms_on_one_scale_and_no_ratio() -> None:
    evidence = judged()
    rows = rows_of(evidence)
    (served,) = (row for row in rows.judged if row.name == "Served share")
    lost = {name: evidence["served"][name]["lost"] for name in ("canary", "control")}
    assert served.bar is None and served.counts is not None and rows.counted_to == 0.1
    assert served.counts.canary == pytest.approx(lost["canary"] / evidence["served"]["canary"]["offered"] / 0.1)
    assert served.counts.words == "canary 60 of 1,200 (5.0 %), control 240 of 4,800 (5.0 %)"
    text = shown(evidence)
    assert f'aria-label="Served share: {served.counts.words}"' in text
    assert "What is counted has no ratio: these are shares of what was offered, from 0 to 10 %." in text
    assert "counted strip" not in shown(without_counts(evidence))


def without_counts(evidence: dict[str, Any]) -> dict[str, Any]:
    return {name: told for name, told in evidence.items() if name not in ("served", "limits")}


@pytest.mark.parametrize(
    ("wave", "word"),
    [
        (lambda: judged(1.0, 3), "no harm shown"),
        (lambda: judged(1.0, 20, past=False) | {"verdict": None, "compares": False}, "watched"),
        (judged, "not worse"),
    ],
)
def test_the_last_wave_of_what_was_promoted_is_never_inconclusive(
    wave: Callable[[], dict[str, Any]], word: str
) -> None:
    evidence = judged() | {"waves": [wave() | {"nodes": ["gpu-1", "gpu-2", "gpu-3"]}]}
    (_, last) = judgements(rollout(evidence, phase=RolloutPhase.PROMOTED, ended_at=NOW))
    assert last.word == word and last.over and bool(last.because) is (word != "not worse")
    assert "inconclusive" not in shown(evidence, phase=RolloutPhase.PROMOTED, ended_at=NOW)
    assert not any(row.word == "not decided yet" for row in last.rows.judged)
    (_, back) = judgements(rollout(evidence, phase=RolloutPhase.ROLLED_BACK, ended_at=NOW))
    assert back.word == ("not worse" if word == "not worse" else "inconclusive")


def without_new_fields(evidence: dict[str, Any]) -> dict[str, Any]:
    old = copy.deepcopy(evidence)
    for told in old["metrics"].values():
        for name in ("shown", "needed_s", "history"):
            del told[name]
        for line in told["lines"].values():
            del line["finding"]
    return old


def test_older_evidence_is_told_by_its_intervals() -> None:
    text = shown(without_new_fields(judged(1.8, 90)))
    assert finding(text, "TTFT typical") == "worse" and "interval-band" not in text
    assert finding(shown(without_new_fields(judged())), "TTFT typical") == "not worse"
    assert rows_of({"nodes_at_end": {}}).judged == []
    text = shown({"nodes_at_end": {}}, ended_at=NOW)
    assert "Nothing was judged." in text and "/rollouts/3/evidence.json" in text


def test_each_wave_is_told_and_the_newest_stands_open() -> None:
    waves = [judged() | {"nodes": ["gpu-1", "gpu-2"]}, judged(1.8, 90) | {"nodes": ["gpu-1", "gpu-2", "gpu-3"]}]
    evidence = judged() | {"waves": waves}
    assert [one.title for one in judgements(rollout(evidence))] == ["Canary", "Wave 1", "Wave 2"]
    text = shown(evidence)
    assert text.count("<details") == 2 and "<h3>Wave 2</h3>" in text
    assert text.index("<h3>Wave 2</h3>") > text.index('data-key="judged-wave-1"')


def test_an_emergency_and_a_young_rollout_say_why_there_is_nothing() -> None:
    assert "Nothing is judged yet." in shown({})
    emergency = SPEC.model_copy(update={"emergency": True, "reason": "fire"})
    assert "An emergency change is not judged" in shown({}, spec=emergency, plan=None)


def test_an_end_that_cannot_be_told_is_open() -> None:
    ratio = ratio_of({"ratio": 1.1, "interval": [None, None], "worse_beyond": 1.2})
    assert ratio is not None and (ratio.low, ratio.high, ratio.verdict) == (0.0, math.inf, "undecided")
    assert ratio_of({"ratio": None, "interval": [0.9, None]}) is None


def test_the_closing_interval_is_drawn_from_when_it_was_judged() -> None:
    (canary,) = judgements(rollout(judged()))
    (band,) = canary.closing.values()
    rows = band.rows["rows"]
    first = datetime.fromisoformat(rows[0][0]) - datetime.fromisoformat(JUDGED_FROM)
    assert first == timedelta(seconds=5) and canary.judged_s == 300.0
    assert "closed" in band.sentence or "open at first" in band.sentence
