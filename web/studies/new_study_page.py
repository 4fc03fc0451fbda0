"""The form of a new study: what is filled in, and what the study would do, before there is one.

Guarantee: looking changes nothing.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from urllib.parse import urlencode

from controlplane.client import Client
from controlplane.contract.bodies.nodes import FleetColumns, NodeRole
from controlplane.contract.bodies.rollouts import ENDED, NOT_BEGUN
from controlplane.contract.bodies.studies import StudyState
from web.access.viewer import may_operate
from web.frame.page import Context, Page
from web.frame.selection import LONGEST_WORD, Selection
from web.rollouts.proposal_fields import STAGES, UNDECIDED
from web.studies.new_study_fields import FIELDS, FIRST, GROUPS, StudyField, study_fields
from web.studies.study_outline import Bound, becomes, bounds, does, keeps
from web.studies.wanted_study import wanted_study


@dataclass(frozen=True)
class Outlined:
    """What is said of a form. `summary`: in a sentence. `problems`: by field, "" for those of none. The rest is empty
    where something is wrong, but for what bounds it."""

    summary: str
    problems: dict[str, str] = field(default_factory=dict)
    does: Sequence[str] = ()
    keeps: Sequence[str] = ()
    becomes: str = ""
    bounds: Sequence[Bound] = ()


def whole(client: Client, selection: Selection) -> Context:
    """The form as the address fills it in; looked at where it says more than the pool."""
    said = {name: selection.own.get(name, "") for name in FIELDS} | {"pool": selection.pool or ""}
    return form_context(client, said, check=any(said[name] for name in FIELDS if name != "pool"))


def form_context(
    client: Client, said: Mapping[str, str], *, check: bool = True, refused: Mapping[str, str] = MappingProxyType({})
) -> Context:
    """What the form's template is told. refused: what the API has refused of it, by field."""
    fleet = client.fleet()
    pools = _serving(fleet)
    pool = said.get("pool") or next(iter(pools), "")
    said = {**said, "pool": pool}
    operates = may_operate(client)
    checked = _outlined(client, said, fleet) if check and operates else None
    if checked and refused:
        problems = {**checked.problems, **refused}
        checked = replace(checked, summary=summary_of(problems, study_fields()), problems=problems)
    fields = study_fields()
    offered = {one: one for one in sorted({*pools, pool} - {""})}
    fields["pool"] = replace(fields["pool"], choices=offered)
    fields["prompts"] = _with_prompts(fields["prompts"], [one.name for one in client.prompt_sets()], said)
    fields["workload"] = _with_kept(fields["workload"], [one.name for one in client.workloads()], said)
    return {
        "said": said,
        "problems": {} if checked is None else checked.problems,
        "checked": checked,
        "fields": fields,
        "hints": {name: one.hint for name, one in fields.items()},
        "first": FIRST,
        "groups": GROUPS,
        "open": {group.key for group in GROUPS if _wanted(group.names, said, checked)},
        "stages": {name: words for name, (words, _) in STAGES.items()},
        "undecided": UNDECIDED,
        "pools": pools,
        "may_operate": operates,
        "address": address_of(said),
        "key": secrets.token_urlsafe(16),
    }


def _with_kept(workload: StudyField, kept: Sequence[str], said: Mapping[str, str]) -> StudyField:
    """With what the service keeps, and with what is said already: a profile at a rate of its own, say."""
    offered = {name: f"workload {name}" for name in kept}
    if (own := said["workload"]) and own not in offered:
        offered[own] = own
    captured, *profiles = workload.choices.items()
    return replace(workload, choices=dict([captured, *offered.items(), *profiles]))


def _with_prompts(prompts: StudyField, kept: Sequence[str], said: Mapping[str, str]) -> StudyField:
    names = dict.fromkeys([*kept, *filter(None, [said.get("prompts", "")])])
    return replace(prompts, choices={**prompts.choices, **{name: f"prompt set {name}" for name in names}})


def address_of(said: Mapping[str, str]) -> str:
    """Where the form is found again as it is filled in, but for what no address holds."""
    kept = {name: said[name] for name in FIELDS if said.get(name) and len(said[name]) <= LONGEST_WORD}
    return f"{PAGE.path}?{urlencode(kept)}" if kept else PAGE.path


def summary_of(problems: Mapping[str, str], fields: Mapping[str, StudyField]) -> str:
    """For who does not see the fields: which are wrong, the first with why."""
    name, why = next(iter(problems.items()))
    title = fields[name].title if name in fields else name
    more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
    return f"Not yet: {title + ': ' if title else ''}{why}{more}"


def _outlined(client: Client, said: Mapping[str, str], fleet: FleetColumns) -> Outlined:
    read, pool = wanted_study(said), said["pool"]
    problems = dict(read.problems)
    if pool and pool not in _serving(fleet):
        problems.setdefault("pool", f"{pool!r} has no serving nodes")
    under_way = [one for one in client.rollouts() if one.phase not in ENDED | NOT_BEGUN]
    before = [*client.studies(StudyState.RUNNING), *client.studies(StudyState.QUEUED)]
    online = said.get("where") == "online"
    bound = bounds(pool, fleet, under_way, before, online=online) if pool else []
    if read.study is None or problems:
        return Outlined(summary_of(problems, study_fields()), problems, bounds=bound)
    waits = f"; {bound[0][0][:1].lower()}{bound[0][0][1:]}" if bound else ""
    study = read.study
    return Outlined(f"It can be started{waits}", {}, does(study), keeps(study), becomes(study), bound)


def _serving(fleet: FleetColumns) -> list[str]:
    return sorted({pool for pool, role in zip(fleet.pool, fleet.role, strict=True) if role is NodeRole.SERVING})


def _wanted(names: Sequence[str], said: Mapping[str, str], checked: Outlined | None) -> bool:
    wrong = checked.problems if checked else {}
    return any(said.get(name) or name in wrong for name in names)


PAGE = Page(
    "study_new",
    "/studies/new",
    "A new study",
    section="studies",
    bar=False,
    whole=whole,
    scripts=("proposal.js",),
)
