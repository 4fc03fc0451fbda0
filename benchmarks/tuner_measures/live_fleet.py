"""A fleet under traffic as `make run` starts it, and a study of it: what live measures of studies share."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

from agents.demo.demo_fleet import Fleet
from agents.demo.plan import POOL, Plan
from controlplane.client import Client
from controlplane.contract.bodies.studies import Study, StudyCreate, StudyState
from tests.processes import wait_for

ENDED = {StudyState.FINISHED, StudyState.FAILED, StudyState.CANCELLED}


def all_nodes(fleet: Fleet) -> int:
    """Starts the plan's serving nodes and its trial node; how many that are."""
    fleet.start_nodes()
    return len(fleet.plan.engine_ports) + 1


def serving_nodes(fleet: Fleet) -> int:
    """The same without a trial node."""
    for number, port in enumerate(fleet.plan.engine_ports, 1):
        fleet.start_node(f"node-{number}", port, POOL, "serving")
    return len(fleet.plan.engine_ports)


@contextmanager
def fleet_live(plan: Plan, start_nodes: Callable[[Fleet], int] = all_nodes) -> Iterator[tuple[Fleet, Client]]:
    """One fleet whose nodes are healthy, under traffic. `start_nodes` says how many it has started. Raises
    AssertionError where the fleet does not come up."""
    fleet = Fleet(plan)
    fleet.clear()
    try:
        fleet.start_service()
        wait_for("the service is ready", lambda: httpx.get(f"{fleet.url}/readyz").status_code == 200, 180)
        wanted = start_nodes(fleet)
        with fleet.client() as client:
            wait_for(
                "every node is healthy",
                lambda: sum(node.healthy for node in client.nodes()) == wanted,
                plan.start_limit_s,
            )
            fleet.start_traffic()
            yield fleet, client
    finally:
        fleet.stop()


@contextmanager
def study_live(
    plan: Plan, asked: StudyCreate, limit_s: float, start_nodes: Callable[[Fleet], int] = all_nodes
) -> Iterator[tuple[Client, Study]]:
    """A study of what such a fleet served in `asked.workload_s`, ended."""
    with fleet_live(plan, start_nodes) as (_, client):
        time.sleep(asked.workload_s)
        study = client.create_study(asked)
        wait_for("the study ends", lambda: client.study(study.id).state in ENDED, limit_s)
        yield client, client.study(study.id)
