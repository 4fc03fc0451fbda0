"""A rollout's row as the API shows it."""

from collections.abc import Sequence
from datetime import timedelta

from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate, RolloutPhase, Verdict
from controlplane.contract.changes.hooks import HookCall, HookState
from controlplane.rollouts.decision import State
from controlplane.rollouts.judging.judging_plan import plan_of
from controlplane.rollouts.outlook import held_by, next_of, waves_of
from controlplane.rollouts.stages import NO_GROUP, grouped
from controlplane.rollouts.tables import RolloutRow
from controlplane.rollouts.time_bounds import phase_bound_s

_OF_OTHERS = {"spec", "plan", "until", "next", "waves", "hooks", "held", "held_since"}


def state_of(row: RolloutRow) -> State:
    """The row as the machine sees it."""
    return State(
        phase=RolloutPhase(row.phase),
        spec=RolloutCreate.model_validate(row.spec),
        verdict=None if row.verdict is None else Verdict(row.verdict),
        previous_revision=row.previous_revision,
        canary_nodes=tuple(row.canary_nodes),
        told_nodes=tuple(row.told_nodes),
        step_since=row.step_since,
        message=row.message,
        away_s=row.away_s,
        resumes=None if row.resumes is None else RolloutPhase(row.resumes),
    )


def rollout_view(row: RolloutRow, calls: Sequence[HookCall] = ()) -> Rollout:
    """calls: the newest of each hook."""
    shown = row.model_dump(include=set(Rollout.model_fields) - _OF_OTHERS)
    seen = state_of(row)
    asked = [call for call in calls if call.kind.asks and call.step == row.step and call.state is not HookState.GO]
    held = held_by(seen, asked)
    groups = {node: row.node_groups.get(node, NO_GROUP) for node in (*row.control_nodes, *row.told_nodes)}
    order = grouped(groups, row.told_nodes, seen.spec.wave_order, len(row.canary_nodes) or None)
    bound_s = None if row.step_since is None or asked else phase_bound_s(seen, order)
    return Rollout.model_validate(
        {
            **shown,
            "spec": seen.spec,
            "plan": plan_of(seen.spec),
            "until": None if bound_s is None else row.step_since + timedelta(seconds=bound_s + row.away_s),  # type: ignore[operator]
            "next": next_of(seen, order, tuple(call.name for call in asked)),
            "hooks": calls,
            "held": held,
            "held_since": None if held is None else row.step_since,
            "waves": waves_of(seen.spec, order) if row.told_nodes else [],
        }
    )
