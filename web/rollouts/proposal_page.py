"""The editor of a new rollout: what is filled in, and what the service says to it before anything is done.

Guarantee: looking changes nothing: all of it is the API's dry run.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from controlplane.client import Client
from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.contract.bodies.rollouts import ENDED, NOT_BEGUN, Rollout, RolloutForecast
from controlplane.contract.changes.findings import Finding
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import TailwrightError, Unauthenticated
from controlplane.contract.knobs import KNOBS, QUANTIZATION
from controlplane.contract.reports.declared_knobs import DeclaredBySome, by_some
from web.access.viewer import may_operate
from web.frame.page import Context, Page
from web.frame.selection import LONGEST_WORD, Selection
from web.rollouts.change_rows import ChangedKnob, changed_knobs, production_of, standing_for
from web.rollouts.declared_fields import FIELD as DECLARED
from web.rollouts.holds import Hold, holds
from web.rollouts.proposal_fields import (
    FIELDS,
    STAGES,
    UNDECIDED,
    Filled,
    declared_hint,
    filled,
    knob_hint,
    problems_of,
)
from web.rollouts.wave_rows import named

MOST_OFFERED = 60
"""Revisions that a rollout can be laid over here, newest first."""


@dataclass(frozen=True)
class Checked:
    """What the service says of a form. `summary`: in a sentence. `problems`: by field, "" for those of none.
    `forecast`: None where something is wrong. `findings`: of nodes. `busy`: what is under way in its pool."""

    summary: str
    problems: dict[str, str] = field(default_factory=dict)
    forecast: RolloutForecast | None = None
    findings: list[Finding] = field(default_factory=list)
    more_findings: int = 0
    changes: list[ChangedKnob] = field(default_factory=list)
    bounds: list[Hold] = field(default_factory=list)
    busy: Rollout | None = None

    @property
    def of_nodes(self) -> list[tuple[str, bool]]:
        """The findings in sentences, and whether each refuses: of nodes of which the same is so, one."""
        alike: dict[tuple[bool, str, str], list[str]] = {}
        for one in self.findings:
            alike.setdefault((one.refuses, one.problem, one.mend), []).append(one.node)
        return [
            (f"{named(nodes)}: " * bool(nodes[0]) + problem + (f"; {mend}" if mend else ""), refuses)
            for (refuses, problem, mend), nodes in alike.items()
        ]

    @property
    def longest(self) -> str:
        """How long it takes at most, in words."""
        longest_s = 0.0 if self.forecast is None else self.forecast.longest_s
        return f"{longest_s / 3600:.1f} h" if longest_s >= 7200 else f"{longest_s / 60:.0f} min"


def whole(client: Client, selection: Selection) -> Context:
    """The form as the address fills it in; checked where it says more than the pool."""
    said = {name: selection.own.get(name, "") for name in FIELDS}
    said |= {name: selection.filters.get(name, "") for name in ("pool", "revision")}
    asked = any(said[name] for name in FIELDS if name != "pool")
    return form_context(client, said, check=asked)


def form_context(client: Client, said: Mapping[str, str], *, check: bool = True) -> Context:
    """What the form's template is told. Raises `Unauthenticated` alone."""
    told = client.fleet()
    pools = sorted({pool for pool, role in zip(told.pool, told.role, strict=True) if role is NodeRole.SERVING})
    pool = said.get("pool") or next(iter(pools), "")
    revisions = client.configs()
    production = production_of(client.fleet(pool)) if pool else None
    number = said.get("revision") or str(production or next((one.number for one in revisions), ""))
    said = {**said, "pool": pool, "revision": number}
    nodes = standing_for(client, pool) if pool else []
    by_number = {str(one.number): one for one in revisions}
    operates = may_operate(client)
    checked = None
    if check and operates:
        checked = _checked(client, said, by_number, production, nodes)
    return {
        "said": said,
        "problems": {} if checked is None else checked.problems,
        "checked": checked,
        "hints": _hints(by_number.get(number), nodes) | {DECLARED: declared_hint(_declared(nodes))},
        "has_declared": bool(_declared(nodes)) or bool(said.get(DECLARED)),
        "knobs": KNOBS,
        "formats": {"": "as it is"} | {str(one): str(one) for one in KNOBS[QUANTIZATION].choices},
        "pools": {one: one for one in sorted({*pools, pool} - {""})},
        "revisions": _offered(revisions, production, number),
        "stages": {name: words for name, (words, _) in STAGES.items()},
        "undecided": UNDECIDED,
        "may_operate": operates,
        "address": address_of(said),
        "key": secrets.token_urlsafe(16),
    }


def address_of(said: Mapping[str, str]) -> str:
    """Where the form is found again as it is filled in, but for what no address holds."""
    kept = {name: said[name] for name in FIELDS if said.get(name) and len(said[name]) <= LONGEST_WORD}
    return f"{PAGE.path}?{urlencode(kept)}" if kept else PAGE.path


def _checked(
    client: Client,
    said: Mapping[str, str],
    revisions: Mapping[str, Revision],
    production: int | None,
    nodes: Sequence[NodeView],
) -> Checked:
    read = filled(said)
    base, before = revisions.get(said["revision"]), revisions.get(str(production))
    after = {} if base is None else base.knobs.knobs() | read.knobs
    changes = changed_knobs(None if before is None else before.knobs.knobs(), after, nodes)
    pool, under_way = said["pool"], [one for one in client.rollouts() if one.phase not in ENDED | NOT_BEGUN]
    known: dict[str, Any] = {
        "changes": changes,
        "bounds": holds(client, pool, None, utc_now()),
        "busy": next((one for one in under_way if one.spec.pool == pool), None),
    }
    return _answered(client, read, known)


def _answered(client: Client, read: Filled, known: Mapping[str, Any]) -> Checked:
    if read.proposal is None:
        return Checked(_wrong(read.problems), read.problems, **known)
    try:
        forecast = client.forecast_rollout(read.proposal)
    except Unauthenticated:
        raise
    except TailwrightError as error:
        problems = problems_of(error)
        found = [Finding.model_validate(one) for one in error.detail.get("findings") or []]
        return Checked(_wrong(problems), problems, findings=found, **known)
    radius = forecast.blast_radius
    reach = radius.says[0] if radius is not None and radius.says else "no node that may be told"
    summary = f"It can be proposed: {reach}"
    return Checked(summary, {}, forecast, forecast.findings, forecast.more_findings, **known)


def _wrong(problems: Mapping[str, str]) -> str:
    """For who does not see the fields: which are wrong, the first with why."""
    name, why = next(iter(problems.items()))
    more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
    return f"Not yet: {name + ': ' if name else ''}{why}{more}"


def _declared(nodes: Sequence[NodeView]) -> DeclaredBySome:
    return by_some(node.effective.declared for node in nodes if node.effective is not None)


def _hints(base: Revision | None, nodes: Sequence[NodeView]) -> dict[str, str]:
    values = {name: knob.default for name, knob in KNOBS.items()} if base is None else base.knobs.knobs()
    return {name: knob_hint(knob, values[name], nodes) for name, knob in KNOBS.items()}


def _offered(revisions: list[Revision], production: int | None, chosen: str) -> dict[str, str]:
    """Production first, then the newest; the chosen one is always among them."""
    ordered = sorted(revisions, key=lambda one: (one.number != production, -one.number))
    found = {str(one.number): _words(one, production) for one in ordered[:MOST_OFFERED]}
    return found if chosen in found or not chosen else {**found, chosen: chosen}


def _words(one: Revision, production: int | None) -> str:
    note = f": {one.note[:60]}" if one.note else ""
    return f"{one.number}{', in production' if one.number == production else ''}{note}"


PAGE = Page(
    "rollout_new",
    "/rollouts/new",
    "A new rollout",
    section="rollouts",
    bar=False,
    whole=whole,
    scripts=("proposal.js",),
)
