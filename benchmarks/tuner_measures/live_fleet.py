"""A fleet under traffic as `make run` starts it, and a study of it: what live measures of studies share."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

from agents.demo.demo_fleet import Fleet
from agents.demo.plan import Plan
from controlplane.client import Client
from controlplane.contract.bodies.studies import Study, StudyCreate, StudyState
from tests.processes import wait_for

ENDED = {StudyState.FINISHED, StudyState.FAILED, StudyState.CANCELLED}


def no_more(_: Fleet) -> int:
    return 0


@contextmanager
def study_live(
    plan: Plan, asked: StudyCreate, limit_s: float, start_more: Callable[[Fleet], int] = no_more
) -> Iterator[tuple[Client, Study]]:
    """One fleet, and one study of what it served in `asked.workload_s`, ended. `start_more` starts what is to be there
    besides, and says how many nodes that are. Raises AssertionError where the fleet does not come up."""
    fleet = Fleet(plan)
    fleet.clear()
    try:
        fleet.start_service()
        wait_for("the service is ready", lambda: httpx.get(f"{fleet.url}/readyz").status_code == 200, 180)
        fleet.start_nodes()
        wanted = len(plan.engine_ports) + 1 + start_more(fleet)
        with fleet.client() as client:
            wait_for(
                "every node is healthy",
                lambda: sum(node.healthy for node in client.nodes()) == wanted,
                plan.start_limit_s,
            )
            fleet.start_traffic()
            time.sleep(asked.workload_s)
            study = client.create_study(asked)
            wait_for("the study ends", lambda: client.study(study.id).state in ENDED, limit_s)
            yield client, client.study(study.id)
    finally:
        fleet.stop()
