"""A trial, taken and reported in one go."""

from typing import Any

from sqlmodel import Session

from controlplane.contract.bodies.studies import Trial, TrialReport, TrialState
from controlplane.contract.planning.trial_leases import NodeWanted, TrialWanted
from controlplane.studies import lease_store


def measure(
    session: Session, study_id: int, worker: str, number: int, clock: Any, *, kind: str = "search", node: str = "t"
) -> Trial:
    """Under a lease that is given back."""
    token = lease_store.take_node(session, study_id, NodeWanted(worker=worker, node=node), clock()).token
    lease_store.take_trial(session, study_id, token, TrialWanted(number=number, kind=kind, knobs={}), clock())
    report = TrialReport(number=number, kind=kind, knobs={}, state=TrialState.COMPLETE, feasible=True)
    found = lease_store.report_trial(session, study_id, token, report, clock())
    assert isinstance(found, Trial)
    lease_store.release(session, study_id, token, clock())
    return found
