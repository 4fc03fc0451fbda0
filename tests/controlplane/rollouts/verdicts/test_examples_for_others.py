"""docs/verdicts.md: each example is what its tool takes, asks what we answer, and reads our answer rightly."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from controlplane.contract.changes.verdicts import Outcome, VerdictAnswer, VerdictAsked
from controlplane.rollouts.verdicts.flagger_hook import asked_by, is_yes, read_hook

HERE = Path(__file__).parent
GUIDE = (HERE.parents[3] / "docs/verdicts.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = [one for block in blocks("yaml") for one in [yaml.safe_load(block)] if one.get("kind") == kind]
    return found


def schema(name: str) -> dict[str, Any]:
    return json.loads((HERE / f"{name}.schema.json").read_text())


def result_of(path: str, answer: VerdictAnswer) -> Any:
    """What Argo's web provider finds at a `jsonPath` of names ("{$.a.b}") in an answer as it goes over the wire: the
    first match, as JSON has it. A path that finds nothing is an error there."""
    matched = re.fullmatch(r"\{\$((?:\.\w+)+)\}", path)
    assert matched, f"{path}: not of the kind that is tested here"
    found = json.loads(answer.model_dump_json())
    for name in matched[1].removeprefix(".").split("."):
        found = found[name]
    return found


def holds(condition: str, result: Any) -> bool:
    """Whether a condition of the form `result == "text"` holds."""
    matched = re.fullmatch(r'result == "(\w+)"', condition)
    assert matched, f"{condition}: not of the kind that is tested here"
    return bool(result == matched[1])


def measured(metric: dict[str, Any], answer: VerdictAnswer) -> str:
    """The phase of a measurement, as Argo decides it: a failure first, and neither is inconclusive."""
    result = result_of(metric["provider"]["web"]["jsonPath"], answer)
    if holds(metric["failureCondition"], result):
        return "Failed"
    return "Successful" if holds(metric["successCondition"], result) else "Inconclusive"


def test_argos_template_is_one() -> None:
    jsonschema_rs.validate(schema("argo_analysis_template"), of_kind("AnalysisTemplate"))


@pytest.mark.parametrize(
    ("outcome", "phase"),
    [(Outcome.PASS, "Successful"), (Outcome.FAIL, "Failed"), (Outcome.INCONCLUSIVE, "Inconclusive")],
)
def test_argo_reads_our_answer(outcome: Outcome, phase: str) -> None:
    (metric,) = of_kind("AnalysisTemplate")["spec"]["metrics"]
    assert measured(metric, VerdictAnswer(verdict=outcome, final=False, says=[])) == phase


def test_what_argo_asks_is_a_question() -> None:
    template = of_kind("AnalysisTemplate")["spec"]
    web = template["metrics"][0]["provider"]["web"]
    named = set(re.findall(r"\{\{args\.([\w-]+)\}\}", json.dumps(web)))
    assert named == {one["name"] for one in template["args"]}
    asked = VerdictAsked.model_validate(web["jsonBody"])
    assert asked.control.node != asked.canary.node
    assert web["url"].endswith("/api/v1/verdicts")


def test_argo_waits_no_longer_for_us_than_it_may() -> None:
    (metric,) = of_kind("AnalysisTemplate")["spec"]["metrics"]
    assert metric["inconclusiveLimit"] >= metric["count"], "the run would end at its first inconclusive answers"


def test_flaggers_canary_is_one() -> None:
    jsonschema_rs.validate(schema("flagger_canary"), of_kind("Canary"))


@pytest.mark.parametrize(
    ("kind", "yes_on"),
    [
        ("rollout", {Outcome.PASS, Outcome.INCONCLUSIVE}),
        ("confirm-promotion", {Outcome.PASS}),
        ("rollback", {Outcome.FAIL}),
    ],
)
def test_what_flagger_posts_is_a_question_and_yes_is_what_its_hook_means(kind: str, yes_on: set[Outcome]) -> None:
    canary = of_kind("Canary")
    (webhook,) = [one for one in canary["spec"]["analysis"]["webhooks"] if one["type"] == kind]
    # The payload of v1beta1: name, namespace, phase, checksum, and the webhook's metadata.
    posted = {**canary["metadata"], "phase": "Progressing", "checksum": "5d", "metadata": webhook["metadata"]}
    hook = read_hook(posted)
    asked = asked_by(hook)
    assert (asked.control.node, asked.canary.node) == (["chat-primary-*"], ["chat-*"])
    assert {outcome for outcome in Outcome if is_yes(hook.yes_when, outcome)} == yes_on


def test_a_pipelines_question_is_one() -> None:
    (command,) = blocks("sh")
    (body,) = re.findall(r"-d '(.*?)'", command)
    asked = VerdictAsked.model_validate_json(body)
    assert asked.end is not None
    assert "jq -e '.verdict == \"pass\"'" in command


def test_the_answer_that_is_shown_has_our_fields() -> None:
    shown = json.loads(blocks("json")[0])
    assert set(shown) <= set(VerdictAnswer.model_fields)
    assert {"verdict", "ratio", "interval", "counts", "strata"} <= set(shown)
