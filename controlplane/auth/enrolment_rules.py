"""What a token of scope enrol may register: kept beside the token, used up with each node.

Guarantee: of two who use the last use at the same time, one is refused.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from sqlalchemy import CursorResult, update
from sqlmodel import Session, col, select

from controlplane.auth.tables import EnrolmentRulesRow
from controlplane.contract.bodies.access import EnrolmentRequest, EnrolmentRules
from controlplane.contract.errors import Forbidden


def keep(session: Session, token_id: int, rules: EnrolmentRules) -> None:
    session.add(EnrolmentRulesRow(token_id=token_id, **rules.model_dump()))
    session.flush()


def of(session: Session, token_id: int) -> EnrolmentRules | None:
    return of_all(session, [token_id]).get(token_id)


def of_all(session: Session, token_ids: Sequence[int]) -> dict[int, EnrolmentRules]:
    """Of those of these tokens that have any, by the token."""
    rows = session.exec(select(EnrolmentRulesRow).where(col(EnrolmentRulesRow.token_id).in_(token_ids)))
    # They were validated when they were made; `uses` may have come down to 0 since.
    return {row.token_id: EnrolmentRules.model_construct(**row.model_dump(exclude={"token_id"})) for row in rows}


def problem_of(rules: EnrolmentRules, wanted: EnrolmentRequest) -> tuple[str, str] | None:
    """(field, why) of what the rules do not allow; None where they allow all of it. Pure."""
    if rules.pools is not None and wanted.pool not in rules.pools:
        return "pool", f"this token registers nodes in {', '.join(rules.pools)}, not in {wanted.pool!r}"
    if rules.roles is not None and wanted.role not in rules.roles:
        return "role", f"this token registers {' and '.join(rules.roles)} nodes, not {wanted.role} ones"
    if rules.nodes is not None and not fnmatchcase(wanted.node, rules.nodes):
        return "node", f"this token registers nodes named like {rules.nodes!r}, not {wanted.node!r}"
    return None


def use(session: Session, token_id: int, wanted: EnrolmentRequest) -> None:
    """Raises `Forbidden` where the token's rules do not allow this node, or it is used up; else counts one use."""
    rules = of(session, token_id)
    if rules is None:
        return
    problem = problem_of(rules, wanted)
    if problem is not None:
        field, why = problem
        raise Forbidden(f"{field}: {why}; an administrator makes tokens (POST /api/v1/tokens)", field=field)
    if rules.uses is None:
        return
    left = col(EnrolmentRulesRow.uses)
    fewer = update(EnrolmentRulesRow).where(col(EnrolmentRulesRow.token_id) == token_id, left > 0)
    changed: CursorResult[None] = session.connection().execute(fewer.values(uses=left - 1))
    if changed.rowcount == 0:
        raise Forbidden(
            "this enrolment token is used up; an administrator makes another (POST /api/v1/tokens)",
            field="Authorization",
        )
    session.expire_all()
