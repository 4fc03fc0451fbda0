"""What the form of a new rollout says, as the API takes it. Pure.

Guarantee: each field that is wrong is told at once, by its own name; what is left empty is not said.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from controlplane.contract.bodies.change import class_of, hardest
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.rollouts import RolloutProposal, Stage
from controlplane.contract.changes.blast_radius import BlastLimit
from controlplane.contract.errors import BadRequest, TailwrightError
from controlplane.contract.knobs import KNOBS, NUM_SPECULATIVE_TOKENS, ChangeClass, Knob, parse_knob
from controlplane.contract.mistake_text import mistake_text
from controlplane.contract.reports.declared_knobs import DeclaredBySome, DeclaredKnob
from web.frame.format import knob as knob_words
from web.frame.time_range import duration
from web.rollouts.declared_fields import FIELD as DECLARED
from web.rollouts.declared_fields import declared_values
from web.rollouts.guard_fields import BY_LABEL, WHICH_LABEL, share_of, wants_label
from web.rollouts.guard_fields import UNDECIDED as UNDECIDED_BY_POLICY
from web.settings.form_fields import words

STAGES: dict[str, tuple[str, list[Stage]]] = {
    "": ("the canary, then equal waves of its size", []),
    "rising": ("one node, 10 %, 50 %, all", [Stage(share=share) for share in (0, 0.1, 0.5, 1)]),
    "watched": (
        "one node, 10 %, 50 %, then a person looks, all",
        [Stage(share=0), Stage(share=0.1), Stage(share=0.5, pause=True), Stage(share=1)],
    ),
}
UNDECIDED = UNDECIDED_BY_POLICY | {"": "as the pool's policy says, else it is held"}
HOW = ("canary", "stages", "soak", "undecided", "tolerance", "approval")
LIMITS = {"nodes": "most_nodes", "traffic_share": "most_traffic", "unavailable_s": "longest_wait"}
"""Of the blast radius: fields of the form, by what the API calls them."""
FIELDS = ("pool", "revision", *KNOBS, DECLARED, "reason", *HOW, *BY_LABEL, *LIMITS.values())
RENAMED = {"canary_share": "canary", "soak_s": "soak", "on_inconclusive": "undecided", "wants_approval": "approval"}
RENAMED |= {"wave_soak_s": "wave_soak"}
RENAMED |= {f"max_blast.{name}": field for name, field in LIMITS.items()}
SCHEDULE = "Draft length; a number, or by batch size, such as 4: 2, 16: 1"
_PAIR = re.compile(r"\s*(?:≤|<=)?\s*(\d{1,9})\s*:\s*(\d{1,9})\s*")


@dataclass(frozen=True)
class Filled:
    """A form as it was read. `proposal`: None where a field is wrong; `problems` by field. `knobs`: those that are
    right, so that what they change can be shown beside what is wrong."""

    proposal: RolloutProposal | None
    problems: dict[str, str]
    knobs: dict[str, Any]


def filled(said: Mapping[str, str]) -> Filled:
    """Nothing begins by it (`start`): whoever sends it says so."""
    problems: dict[str, str] = {}

    def read(name: str, of: Any) -> Any:
        text = said.get(name, "").strip()
        if not text:
            return None
        try:
            return of(text)
        except BadRequest as error:
            problems[name] = error.message.removeprefix(f"{name}: ")
            return None

    knobs = {
        name: value
        for name in KNOBS
        if (value := read(name, lambda text, name=name: knob_value(name, text))) is not None
    }
    knobs |= read(DECLARED, declared_values) or {}
    wanted: dict[str, Any] = {
        "pool": said.get("pool", "").strip() or None,
        "revision": read("revision", lambda text: _whole(text, "revision")),
        "reason": said.get("reason", "").strip() or None,
        "canary_share": read("canary", lambda text: share_of(text, "canary")),
        "stages": read("stages", _stages),
        "soak_s": read("soak", lambda text: duration(text, "soak").total_seconds()),
        "on_inconclusive": said.get("undecided") or None,
        "tolerance": read("tolerance", lambda text: share_of(text, "tolerance")),
        "wants_approval": True if said.get("approval") == "yes" else None,
        "canary_selector": said.get("canary_selector", "").strip() or None,
        "wave_by": said.get("wave_by", "").strip() or None,
        "wave_order": words(said.get("wave_order", "")) or None,
        "wave_soak_s": read("wave_soak", lambda text: duration(text, "wave_soak").total_seconds()),
        "wave_pause": True if said.get("wave_pause") == "yes" else None,
        "max_blast": _limit(read),
    }
    for name, what in (("pool", "choose one"), ("revision", "choose what it is laid over")):
        if wanted[name] is None:
            problems.setdefault(name, what)
    if wants_label({name: said.get(name, "").strip() for name in BY_LABEL}):
        problems["wave_by"] = WHICH_LABEL
    if problems:
        return Filled(None, problems, knobs)
    given = {name: value for name, value in wanted.items() if value is not None}
    try:
        proposal = RolloutProposal.model_validate({**given, "knobs": knobs, "start": False})
    except ValidationError as error:
        for one in error.errors(include_url=False):
            name = field_of(".".join(str(part) for part in one["loc"]))
            problems[name] = mistake_text(one)
        return Filled(None, problems, knobs)
    return Filled(proposal, {}, knobs)


def knob_value(name: str, text: str) -> Any:
    """Of a draft schedule "4: 2, 16: 1". Raises `BadRequest` that names the knob."""
    knob = KNOBS[name]
    if knob.choices:
        return parse_knob(name, text)
    if name == NUM_SPECULATIVE_TOKENS and ":" in text:
        pairs = [_PAIR.fullmatch(part) for part in text.split(",")]
        if any(pair is None for pair in pairs):
            raise BadRequest(f"{name}: wants a number, or a schedule such as 4: 2, 16: 1", field=name)
        return parse_knob(name, [[int(pair[1]), int(pair[2])] for pair in pairs if pair is not None])
    return parse_knob(name, _whole(text, name))


def problems_of(error: TailwrightError) -> dict[str, str]:
    """What the API refuses, by the form's fields; "" holds what is of none. Findings of nodes stand at their knob."""
    problems: dict[str, str] = {}
    for one in error.detail.get("findings") or []:
        name = field_of(str(one["field"]))
        if one["refuses"] and name and name not in problems:
            where = f"{one['node']}: " if one["node"] else ""
            problems[name] = f"{where}{one['problem']}" + (f"; {one['mend']}" if one["mend"] else "")
    if not problems:
        told = str(error.detail.get("field", ""))
        problems[field_of(told)] = error.message.removeprefix(f"{told}: ")
    return problems


def field_of(told: str) -> str:
    """The form's field for the API's: `knobs.max_num_seqs` stands at `max_num_seqs`, a knob that is none of the
    contract's at that of the declared ones; empty for none of them."""
    if told.startswith("knobs.") and told.split(".")[1].partition("[")[0] not in KNOBS:
        return DECLARED
    whole = told.removeprefix("knobs.").partition("[")[0]
    for name in (whole, whole.partition(".")[0]):
        name = RENAMED.get(name, name)
        if name in FIELDS:
            return name
    return ""


def knob_hint(knob: Knob, value: Any, nodes: Sequence[NodeView]) -> str:
    """What a knob takes, in which unit, within which bounds, and how it changes on these nodes. value: where nothing is
    filled in."""
    said = [SCHEDULE if knob.name == NUM_SPECULATIVE_TOKENS else knob.help.rstrip(".")]
    if knob.choices:
        formats = [
            set(node.effective.formats) for node in nodes if node.effective is not None and node.effective.formats
        ]
        offered = [one for one in knob.choices if all(one in has for has in formats)] if formats else []
        said.append(f"its nodes have {', '.join(offered)}" if offered else f"one of {', '.join(knob.choices)}")
    else:
        said.append(f"{knob.unit}, {knob.minimum} to {knob.maximum}")
    said.append(_how(knob, nodes))
    said.append(f"empty: {knob_words(value)}")
    return "; ".join(part for part in said if part) + "."


def declared_hint(declared: DeclaredBySome) -> str:
    """Which knobs nodes declare, and what each takes; empty where there is none."""
    said = [f"{name}: {_takes(own)}" for name, (own, *_) in sorted(declared.items())]
    return f"Knobs that its nodes declare, as knob=value, commas between. {'; '.join(said)}." if said else ""


def _takes(own: DeclaredKnob) -> str:
    unit = f" {own.unit}" if own.unit else ""
    if own.values is not None:
        range_ = f"one of {', '.join(map(knob_words, own.values))}"
    else:
        range_ = f"{own.minimum} to {own.maximum}"
    change = "live" if own.change_class is ChangeClass.LIVE else f"a {own.change_class.value}"
    return f"{range_}{unit}, a change is {change}"


def _how(knob: Knob, nodes: Sequence[NodeView]) -> str:
    told = [(node.backend, node.effective) for node in nodes if node.effective is not None]
    classes = {class_of(knob.name, backend, effective) for backend, effective in told}
    if not classes:
        return ""
    most_wanted = hardest(classes)
    if most_wanted is not None and most_wanted is not ChangeClass.LIVE:
        return f"a change is a {most_wanted.value}"
    live = min((one.live_limits[knob.name] for _, one in told if knob.name in one.live_limits), default=None)
    most = min((one.limits[knob.name] for _, one in told if knob.name in one.limits), default=None)
    up_to = "" if live is None else f" up to {live}"
    beyond = (
        "" if most is None or most == live else f", a restart up to {most}" if live is not None else f", at most {most}"
    )
    return f"a change is live{up_to}{beyond}"


def _stages(text: str) -> list[Stage]:
    if text not in STAGES:
        raise BadRequest("stages: wants one of those that are offered", field="stages")
    return STAGES[text][1]


def _limit(read: Any) -> BlastLimit | None:
    found = {
        "nodes": read("most_nodes", lambda text: _whole(text, "most_nodes")),
        "traffic_share": read("most_traffic", lambda text: share_of(text, "most_traffic")),
        "unavailable_s": read("longest_wait", lambda text: duration(text, "longest_wait").total_seconds()),
    }
    given = {name: value for name, value in found.items() if value}
    return BlastLimit.model_validate(given) if given else None


def _whole(text: str, field: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise BadRequest(f"{field}: wants a whole number", field=field)
    return int(text)
