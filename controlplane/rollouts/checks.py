"""What a wanted rollout must say. Each error names the field. Reads the registry, writes nothing."""

from collections.abc import Sequence
from itertools import pairwise

from sqlmodel import Session

from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.knob_schema import HISTOGRAMS, MOST_LEVELS
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.changes.label_selector import parsed
from controlplane.contract.errors import BadRequest, Conflict, NotFound, nearest
from controlplane.contract.reports.node_labels import SAID_BY_NODE
from controlplane.fleet import store as fleet
from controlplane.rollouts.policies import store as policies
from controlplane.rollouts.validation.checker import refuse_unfit

LONGEST_S = 30 * 86400.0
MOST_SHOWN = 8
"""Labels, and values of one, that an error shows."""


def check_rollout(
    session: Session, spec: RolloutCreate, serving: Sequence[NodeView], *, again: bool = False
) -> list[NodeView]:
    """Those of the pool's serving nodes that may be told another revision. Raises `BadRequest` or `Conflict` for the
    first wrong field. again: its labels were looked at before."""
    check_judged_by(spec)
    if spec.max_judge_s < spec.min_judge_s:
        raise BadRequest(
            f"max_judge_s: {spec.max_judge_s:g} is below min_judge_s, {spec.min_judge_s:g}", field="max_judge_s"
        )
    for field in ("max_judge_s", "extended_judge_s", "wave_judge_s", "apply_timeout_s", "soak_s", "wave_soak_s"):
        wanted_s = getattr(spec, field)
        if wanted_s is not None and not wanted_s <= LONGEST_S:
            raise BadRequest(f"{field}: at most {LONGEST_S:g} s (30 days)", field=field)
    check_stages(spec)
    if spec.emergency and not spec.reason.strip():
        raise BadRequest("reason: an emergency rollout needs one", field="reason")
    revision = known_revision(session, spec.revision)
    if not serving:
        raise BadRequest(f"pool: {spec.pool!r} has no serving nodes", field="pool")
    tellable = policies.not_pinned(session, spec.pool, serving)
    if not again:
        check_chosen(spec, tellable)
    check_differs(session, spec)
    refuse_unfit(spec, revision, tellable)
    return tellable


def check_chosen(spec: RolloutCreate, nodes: Sequence[NodeView]) -> None:
    """What a rollout itself says of labels has to be there. Not so of a take-back: labels never hold one up."""
    if spec.takes_back is not None or spec.emergency:
        return
    labels = [node.selectable for node in nodes]
    selector = parsed(spec.canary_selector)
    if not any(selector.matches(one) for one in labels):
        raise BadRequest(
            f"canary_selector: no serving node of pool {spec.pool!r} matches {selector}; its nodes have "
            f"{_labels_text(nodes)}",
            field="canary_selector",
        )
    if spec.wave_by and not any(spec.wave_by in one for one in labels):
        raise BadRequest(
            f"wave_by: no serving node of pool {spec.pool!r} has a label {spec.wave_by!r}; its nodes have "
            f"{_labels_text(nodes)}",
            field="wave_by",
        )
    values = {one[spec.wave_by] for one in labels if spec.wave_by in one}
    for place, value in enumerate(spec.wave_order):
        field = f"wave_order[{place}]"
        if value not in values:
            raise BadRequest(
                f"{field}: no serving node of pool {spec.pool!r} has {spec.wave_by}={value}, "
                f"{nearest(value, sorted(values))}",
                field=field,
            )
        if value in spec.wave_order[:place]:
            raise BadRequest(f"{field}: {value!r} is named twice", field=field)


def _labels_text(nodes: Sequence[NodeView]) -> str:
    """Each label with its values: "gpu=H100, region=eu-1|us-2"."""
    found: dict[str, set[str]] = {}
    for node in nodes:
        for name, value in node.labels.items():
            found.setdefault(name, set()).add(value)
    said = [
        f"{name}={'|'.join(sorted(found[name])[:MOST_SHOWN])}{'|...' * (len(found[name]) > MOST_SHOWN)}"
        for name in sorted(found)[:MOST_SHOWN]
    ]
    more = f" and {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else ""
    return (", ".join(said) or "no labels") + more + f", and {', '.join(SAID_BY_NODE)}"


def known_revision(session: Session, number: int) -> Revision:
    """Raises `BadRequest` for one that there is not."""
    try:
        return fleet.revision(session, number)
    except NotFound as error:
        raise BadRequest(error.message, field="revision") from None


def check_differs(session: Session, spec: RolloutCreate) -> None:
    """A rollout of what is in production already has nothing to judge; and a revision that is no longer in production
    cannot be taken back: whoever replaced it has done so already."""
    production = fleet.pool_revision(session, spec.pool)
    if spec.takes_back is not None and spec.takes_back != production:
        runs = "has no revision yet" if production is None else f"runs revision {production}"
        raise Conflict(
            f"takes_back: revision {spec.takes_back} is not in production in pool {spec.pool!r}, which {runs}; "
            "there is nothing to take back",
            field="takes_back",
            revision=production,
        )
    if production == spec.revision:
        raise Conflict(f"revision: {spec.revision} is in production in pool {spec.pool!r} already", field="revision")


def check_judged_by(spec: RolloutCreate) -> None:
    """Raises `BadRequest` for a metric, a level, an objective or a limit that nothing can be judged by."""
    check_metrics(spec.metrics)
    check_compared(spec)


def check_compared(spec: RolloutCreate) -> None:
    """Levels, objective and limits must be of histograms, and levels quantiles."""
    named = [(f"levels.{metric}", metric) for metric in spec.levels]
    named += [("objective", spec.objective)] if spec.objective is not None else []
    named += [(f"limits[{place}].metric", limit.metric) for place, limit in enumerate(spec.limits)]
    for field, short in named:
        if short not in HISTOGRAMS:
            raise BadRequest(f"{field}: no quantiles of {short!r}, {nearest(short, HISTOGRAMS)}", field=field)
    for metric, levels in spec.levels.items():
        field = f"levels.{metric}"
        if not levels or len(set(levels)) < len(levels) or not all(0 < level < 1 for level in levels):
            raise BadRequest(f"{field}: wants quantiles between 0 and 1, each once, got {levels}", field=field)
        if len(levels) > MOST_LEVELS:
            raise BadRequest(f"{field}: at most {MOST_LEVELS} quantiles are compared, got {len(levels)}", field=field)


def check_stages(spec: RolloutCreate) -> None:
    """Shares rise, and the last stage is the whole pool."""
    shares = [stage.share for stage in spec.stages]
    for place, (before, share) in enumerate(pairwise(shares), 1):
        if share <= before:
            raise BadRequest(
                f"stages[{place}].share: {share:g} is not above {before:g}", field=f"stages[{place}].share"
            )
    if shares and shares[-1] != 1:
        field = f"stages[{len(shares) - 1}].share"
        raise BadRequest(f"{field}: the last stage is the whole pool: 1, got {shares[-1]:g}", field=field)


def check_metrics(metrics: list[str]) -> None:
    if not metrics:
        raise BadRequest("metrics: at least one metric is judged", field="metrics")
    for place, short in enumerate(metrics):
        field = f"metrics[{place}]"
        if short not in HISTOGRAMS:
            raise BadRequest(f"{field}: no quantiles of {short!r}, {nearest(short, HISTOGRAMS)}", field=field)
        if short in metrics[:place]:
            raise BadRequest(f"{field}: {short!r} is named twice", field=field)
