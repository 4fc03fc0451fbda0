"""The fields of a wanted study as options of a command."""

import json
import re
from collections.abc import Sequence
from typing import Any

from controlplane.contract.bodies.studies import StudyCreate
from controlplane.terminal.assignments import parse_assignments
from controlplane.terminal.bodies.contract_options import ContractOptions, Form
from controlplane.terminal.service_connection import fail
from controlplane.terminal.studies.study_request import parse_objective

_NUMBER = r"(\d{1,9}(?:\.\d{1,9})?)"
_BOUNDS = re.compile(rf"{_NUMBER}\.\.{_NUMBER}(:log)?")
CAREFUL = "careful"
"""`--online` as it is by default."""
_BETWEEN = re.compile(r",(?=\w+=)")


def space_of(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """["max_num_seqs=16..256:log", "quantization=none,int8"] as `StudyCreate.space`. Leaves with status 2 for what is
    no range. Values that hold commas themselves, such as a schedule of drafts, are a JSON list."""
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        knob, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not knob or not values:
            fail(f"--space: wants knob=LOW..HIGH, knob=LOW..HIGH:log or knob=VALUE,VALUE, got {text!r}")
        if bounds := _BOUNDS.fullmatch(values):
            found[knob] = {"minimum": _value(bounds[1]), "maximum": _value(bounds[2]), "log": bool(bounds[3])}
        elif values.startswith("["):
            found[knob] = {"choices": _listed(values)}
        else:
            found[knob] = {"choices": [_value(one.strip()) for one in values.split(",")]}
    return found


def suggested_of(texts: Sequence[str]) -> list[dict[str, Any]]:
    """["max_num_seqs=64,quantization=int8"] as `StudyCreate.suggested`: one configuration a text."""
    return [parse_assignments(_BETWEEN.split(text), "--suggested") for text in texts]


def also_of(texts: Sequence[str]) -> list[dict[str, Any]]:
    """["tpot:0.5", "goodput"] as `StudyCreate.also`."""
    return [
        {"objective": metric, "objective_q": q} for metric, q in (parse_objective(text, "--also") for text in texts)
    ]


def _rollout_of(texts: Sequence[str]) -> dict[str, Any]:
    return parse_assignments(list(texts), "--rollout", "field=value")


def online_of(texts: Sequence[str]) -> dict[str, Any]:
    """["careful"], or what differs from that: ["step=1.5", "max_taken_back=2"], as `StudyCreate.online`."""
    said = [text for text in texts if text.strip() != CAREFUL]
    return parse_assignments(said, "--online", f"{CAREFUL}, or field=value")


def _listed(text: str) -> list[Any]:
    try:
        found = json.loads(text)
    except ValueError:
        fail(f"--space: {text!r} is no JSON list")
    return list(found)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


BY_COMMAND = ("pool", "objective", "objective_q", "constraints", "max_trials", "load")
FORMS = {
    "also": Form("METRIC:QUANTILE", also_of, repeats=True),
    "space": Form("KNOB=LOW..HIGH[:log]|KNOB=VALUE,...", space_of, repeats=True),
    "suggested": Form("KNOB=VALUE,KNOB=VALUE", suggested_of, repeats=True),
    "rollout": Form("FIELD=VALUE", _rollout_of, repeats=True),
    "online": Form(f"{CAREFUL}|FIELD=VALUE", online_of, repeats=True),
}
with_study_fields = ContractOptions(StudyCreate, by_command=BY_COMMAND, forms=FORMS)
with_fields_of_tune = ContractOptions(StudyCreate, by_command=(*BY_COMMAND, "evaluation"), forms=FORMS)
"""There `--evaluation` is a worker's, too."""
