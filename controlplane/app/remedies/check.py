"""Checks of the remedy a person may give a rule: what could never be started is refused when the rule is written."""

from controlplane.contract.bodies.alerts import Remedy
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.study_checks import check_rollout, check_spec


def check_remedy(remedy: Remedy) -> None:
    """Raises `BadRequest`, naming the field. The pool's nodes may come later, so they are not looked at."""
    if remedy.study is not None:
        try:
            check_spec(remedy.study)
        except BadRequest as error:
            raise _within("remedy.study.", error) from None
    try:
        # The overrides of a take-back are those that a study may give its winner's rollout.
        check_rollout(StudyCreate(pool="", rollout=remedy.rollout))
    except BadRequest as error:
        raise _within("remedy.", error) from None


def _within(place: str, error: BadRequest) -> BadRequest:
    return type(error)(place + error.message, field=place + error.detail["field"])
