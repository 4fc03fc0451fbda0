"""Pools made as files declare them, by the service's own API: policies are set, configurations go out by rollouts.

Guarantee: everything is asked for as a dry run first, so that one wrong thing leaves all as it is; a configuration
reaches nodes by a judged rollout alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from controlplane.client import Client
from controlplane.command.pools.pool_files import PoolFile, read_pools
from controlplane.command.pools.pool_plan import PoolChanges, PoolSeen, plan_pool, policy_body, proposal
from controlplane.contract.bodies.rollouts import RolloutForecast
from controlplane.contract.errors import TailwrightError


@dataclass(frozen=True)
class PlannedPool:
    """One file's changes with what carries them out."""

    wanted: PoolFile
    changes: PoolChanges
    proposal: dict[str, Any]
    policy: dict[str, Any]


def planned(
    client: Client, documents: Mapping[Path, Mapping[str, Any]], *, again: bool, commit: str
) -> tuple[list[PlannedPool], list[str]]:
    """What the files change of their pools, and what is wrong with any of them. Nothing is changed."""
    pools, problems = read_pools(documents)
    if not pools or problems:
        return [], problems
    nodes, revisions, rollouts = client.nodes(), client.configs(), client.rollouts()
    policies = {one.pool: one for one in client.rollout_policies()}
    found = []
    for wanted in pools:
        known = policies.get(wanted.pool)
        try:
            changes = plan_pool(wanted, PoolSeen(nodes, revisions, rollouts, known), again=again)
            one = PlannedPool(wanted, changes, proposal(wanted, changes, commit), policy_body(wanted, known))
            if changes.knobs and not changes.held:
                changes.says = _says(client.forecast_rollout(one.proposal))
            found.append(one)
        except ValidationError as error:
            problems += [f"{wanted.file}: policy.{_path(wrong['loc'])}: {wrong['msg']}" for wrong in error.errors()]
        except TailwrightError as error:
            problems.append(f"{wanted.file}: {error.message}")
    return found, problems


def carry_out(client: Client, pools: Sequence[PlannedPool]) -> None:
    """Set policies, then propose rollouts. Raises what the service refuses after all, with what was done before it."""
    for one in pools:
        if one.changes.policy:
            client.set_rollout_policy(one.policy)
    for one in pools:
        if one.changes.knobs and not one.changes.held:
            one.changes.rollout = client.create_rollout(one.proposal).id


def _says(forecast: RolloutForecast) -> list[str]:
    said = [f"{forecast.rollout.phase}: {forecast.rollout.message}", *forecast.says]
    said += [] if forecast.blast_radius is None else [f"reaches {one}" for one in forecast.blast_radius.says]
    said += [finding.sentence for finding in forecast.findings]
    if forecast.more_findings:
        said.append(f"and {forecast.more_findings} more findings of its nodes")
    return said


def _path(place: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in place)
