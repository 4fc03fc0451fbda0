"""OpAMP exchanges: reports are taken into the registry and answered, those that come together in one transaction.

Guarantees: what the answer says (offer or none) is what the committed state says; an agent's token speaks for its own
node only; a report of another node changes nothing; pool and role are those that the node was enrolled with, whatever
its agent says. Of two agents that speak for one node the one that began last is heard; the other is told so, and only
counts as a claim while that one is there.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.orm.attributes import flag_modified, set_attribute
from sqlmodel import Session, select

from controlplane import ledger
from controlplane.auth import Principal
from controlplane.contract.bodies.nodes import ConfigStatus, NodeRole
from controlplane.contract.errors import BadRequest, NotFound
from controlplane.contract.metrics import POOL
from controlplane.contract.reports.opamp import LEASE_ENDED, REPLACED_PAUSE_S, ROLE, new_instance_uid
from controlplane.db.database import Database
from controlplane.fleet import machine, node_drift
from controlplane.fleet import store as fleet
from controlplane.fleet.effective import stored_text
from controlplane.fleet.enrolling import claims
from controlplane.fleet.enrolling.minute_pace import Pace
from controlplane.fleet.opamp import rotation
from controlplane.fleet.opamp.known_uids import KnownUids
from controlplane.fleet.opamp.read_ahead import ReadAhead
from controlplane.fleet.opamp.wire import AgentReport, Description, Reply, problem_of
from controlplane.fleet.tables import NodeRow
from controlplane.fleet.view import acknowledged_of, effective_of

logger = logging.getLogger(__name__)

CONFIG_FAILED, CONFIG_APPLIED = "node.config_failed", "node.config_applied"
"""The ledger's kinds of what became of a configuration on a node; alerts read them."""
CONFIG_LEFT = "node.lease_ended"
"""The node was cut off in a rollout, and went back to the promoted revision by itself."""


@dataclass(frozen=True)
class Answer:
    """The reply, the node it is for (None: not known yet), and the mark of the wish that it took into account."""

    reply: Reply
    node: str | None = None
    desired: machine.Mark | None = None
    rival_of: str | None = None  # The node that another agent holds, which is why this one was not heard.


@dataclass(frozen=True)
class Terms:
    """events: how many entries a minute a node may cause in the ledger; token_days: after so many days an agent is
    given another token; lease_s: for so long a node that hears nothing keeps a revision that is on trial."""

    events: Pace
    token_days: float
    lease_s: float


@dataclass(frozen=True)
class Came:
    """How a report came in: the WebSocket's name (None: over HTTP), the address it came from, and the number of the
    newest report before it there, which its node's row may not have yet (`quiet_beats`)."""

    connection: str | None = None
    origin: str = "unknown"
    sequence_num: int | None = None


@dataclass(frozen=True)
class Asked:
    """A report, whose it is, and when and how it came."""

    principal: Principal
    report: AgentReport
    now: datetime
    came: Came


def answer(database: Database, asked: Asked, terms: Terms) -> Answer:
    """Take one report in and answer it."""
    with database.session() as session:
        return _answer(session, asked, terms, ReadAhead(session, [asked]))


def answers(database: Database, asked: Sequence[Asked], terms: Terms) -> list[Answer | Exception]:
    """Take reports in and answer each, in one transaction. Where one of them cannot be taken in, each is by itself."""
    if len(asked) > 1:
        try:
            with database.session() as session:
                ahead = ReadAhead(session, asked)
                found = [_going_on(session, one, terms, ahead) or _answer(session, one, terms, ahead) for one in asked]
                ahead.going_on.write()
                return list(found)
        except DBAPIError as error:
            if not isinstance(error, DataError | IntegrityError):
                return [error] * len(asked)  # The database is not there: one wait for it is enough.
        except Exception:
            logger.exception("%d OpAMP reports cannot be taken in together: each is by itself", len(asked))
    return [_alone(database, one, terms) for one in asked]


def _alone(database: Database, asked: Asked, terms: Terms) -> Answer | Exception:
    try:
        return answer(database, asked, terms)
    except Exception as error:  # noqa: BLE001 - it is the answer to whoever asked.
        return error


def _going_on(session: Session, asked: Asked, terms: Terms, ahead: ReadAhead) -> Answer | None:
    """The answer to a report that goes on from the one before it, as `_answer` would give it; None: it is for that."""
    held = ahead.going_on.held(asked)
    token = ahead.token(asked.principal.token_id)
    if held is None or token is None or token.replaces is not None or token.is_stale(terms.token_days, asked.now):
        return None
    if ahead.wishes.production(held.pool) is None:
        return None  # What it runs may become its pool's first revision.
    report, now, came = asked.report, asked.now, asked.came
    last_num = held.sequence_num if came.sequence_num is None else came.sequence_num
    complete = machine.in_sequence(held.instance_uid, last_num, report.instance_uid, report.sequence_num)
    values = {"sequence_num": report.sequence_num, "last_seen": now, **_of_health(report)}
    acknowledged = machine.Acknowledged(held.config_hash, ConfigStatus(held.config_status), held.config_error)
    if report.config is not None:
        values |= _of_config(report.config)
        _tell(session, held.node, acknowledged, report.config, now, terms)
        acknowledged = report.config
    if report.effective is not None:
        values["effective"] = ahead.going_on.dumped(report.effective)
    runs = report.effective or stored_text(held.node, held.effective)
    wish = ahead.wishes.wanted(NodeRole(held.role), held.pool, held.override, held.cache_reset)
    drifts = machine.drifts(wish, runs)
    if drifts != (held.drift_since is not None):
        values["drift_since"] = now if drifts else None
    ahead.going_on.change(held.node, values)
    reply = Reply(
        report.instance_uid,
        offer=wish if machine.must_offer(wish, acknowledged, runs) else None,
        lease_s=terms.lease_s,
        report_full_state=not complete,
        error="; ".join(report.problems) or None,
    )
    return Answer(reply, held.node, None if wish is None else wish.mark)


def _answer(session: Session, asked: Asked, terms: Terms, ahead: ReadAhead) -> Answer:
    wishes, uids = ahead.wishes, ahead.uids
    principal, report, now, came = asked.principal, asked.report, asked.now, asked.came
    reply = Reply(report.instance_uid)
    if report.description is not None:
        problem = _identity_problem(principal, report.description)
        if problem is not None:
            return Answer(reply.with_error(problem))
    node = report.description.node if report.description is not None else principal.node
    held = ahead.node(node)
    if held is not None and held.connected and machine.began_earlier(report.instance_uid, held.instance_uid):
        claims.claim(session, held, _rival(came), now)
        return Answer(_refusal(report, held.node), rival_of=held.node)
    row = _row(session, principal, report, held, now)
    if row is None:
        return Answer(Reply(report.instance_uid, report_full_state=True))
    token = ahead.token(principal.token_id)
    if token is not None and token.replaces is not None:
        rotation.settle(session, principal, now)
    known_num = came.sequence_num if row.connection == came.connection else None
    last_num = row.sequence_num if known_num is None else known_num
    complete = report.description is not None or machine.in_sequence(
        row.instance_uid, last_num, report.instance_uid, report.sequence_num
    )
    _take_in(session, row, report, now, terms, came)
    runs = report.effective or effective_of(row)
    uids.note(row)
    problems = [*report.problems, *_moves(principal, row, report.description)]
    try:
        fleet.adopt(session, row, runs, now, wishes)
    except BadRequest as error:
        problems.append(f"effective_config.{error.message}")
    wish = wishes.of(row)
    node_drift.refresh(row, wish, runs, now)
    stale = token is not None and token.is_stale(terms.token_days, now)
    due = stale and report.takes_connection_settings and not report.disconnecting
    reply = Reply(
        report.instance_uid,
        offer=wish if machine.must_offer(wish, acknowledged_of(row), runs) else None,
        lease_s=terms.lease_s,
        token=rotation.offered(session, principal, row, terms.token_days, now) if due else None,
        new_instance_uid=_another_uid(uids, row, report, now),
        report_full_state=not complete,
        error="; ".join(problems) or None,
    )
    return Answer(reply, row.node, None if wish is None else wish.mark)


def _another_uid(uids: KnownUids, row: NodeRow, report: AgentReport, now: datetime) -> bytes | None:
    """A new instance_uid for an agent that asks for one, or whose own is another node's, too: a machine was copied."""
    is_copy = report.description is not None and uids.is_anothers(row)
    return new_instance_uid(int(now.timestamp() * 1000)) if report.wants_instance_uid or is_copy else None


def _identity_problem(principal: Principal, description: Description) -> str | None:
    problem = problem_of(description)
    if problem is not None:
        return problem
    if principal.node is not None and description.node != principal.node:
        return (
            f"service.instance.id: this token is bound to node {principal.node!r}, the report is of "
            f"{description.node!r}; enrol that node to get a token of its own (POST /api/v1/enrol)"
        )
    return None


def _rival(came: Came) -> str:
    return f"another agent process that holds its token, at {came.origin}"


def _refusal(report: AgentReport, node: str) -> Reply:
    told = f"another agent, started later, speaks for node {node}: enrol this one under a name of its own, or end it"
    return Reply(report.instance_uid, error=told, retry_after_s=REPLACED_PAUSE_S)


def _moves(principal: Principal, row: NodeRow, said: Description | None) -> list[str]:
    """What a node's agent says of its pool and role that is not what the node was enrolled with."""
    if principal.node is None or said is None:
        return []
    told = ((POOL.name, said.pool, row.pool), (ROLE, said.role, row.role))
    return [
        f"{field}: node {row.node} was enrolled with {kept!r}, its agent says {value!r}; enrol it again to move it"
        for field, value, kept in told
        if value is not None and value != kept
    ]


def _row(
    session: Session, principal: Principal, report: AgentReport, row: NodeRow | None, now: datetime
) -> NodeRow | None:
    """The node the report is of; None when only a full report can tell. row: as far as the report says whose it is."""
    said = report.description
    if said is not None:
        if row is not None and principal.node is not None:
            row.backend = said.backend or row.backend
            return row
        return fleet.place(
            session,
            said.node,
            pool=principal.pool or said.pool or (row.pool if row else "default"),
            role=said.role or (row.role if row else NodeRole.SERVING.value),
            backend=said.backend or (row.backend if row else "unknown"),
            now=now,
        )
    if principal.node is not None:
        return row
    return session.exec(select(NodeRow).where(NodeRow.instance_uid == report.instance_uid)).first()


def _take_in(session: Session, row: NodeRow, report: AgentReport, now: datetime, terms: Terms, came: Came) -> None:
    if row.instance_uid != report.instance_uid:
        if row.replaced_uid == report.instance_uid and claims.is_live(row, now):
            # A process that had given way to another speaks again: both run.
            claims.claim(session, row, _rival(came), now)
        row.replaced_uid = row.instance_uid
    known = _known(report, now, came)
    if report.description is not None:
        _engine(session, row, report.description.engine, now, terms)
        known |= _described(row, report.description)
    known |= _of_health(report)
    if report.effective is not None:
        set_attribute(row, "effective", report.effective.model_dump(mode="json"))
        flag_modified(row, "effective")  # As JSON true is not 1, which nobody else would see.
    _set(row, known)
    if report.config is not None:
        _acknowledge(session, row, report.config, now, terms)


def _known(report: AgentReport, now: datetime, came: Came) -> dict[str, Any]:
    """What every report says of its node's row."""
    there = not report.disconnecting
    return {
        "instance_uid": report.instance_uid,
        "sequence_num": report.sequence_num,
        "last_seen": now,
        "connected": there,
        "gone": not there,
        "connection": came.connection if there else None,
    }


def _of_health(report: AgentReport) -> dict[str, Any]:
    if report.health is None:
        return {}
    known = {"healthy": report.health.healthy, "health_detail": report.health.detail}
    share = report.health.unaccounted_share
    return known if share is None else known | {"unaccounted_share": share}


def _of_config(said: machine.Acknowledged) -> dict[str, Any]:
    return {"config_hash": said.hash, "config_status": said.status.value, "config_error": said.error}


def _described(row: NodeRow, said: Description) -> dict[str, Any]:
    return {
        "agent_version": said.version,
        "model": said.model or row.model,
        "engine_url": said.engine_url,
        "labels": dict(said.labels),
    }


def _set(row: NodeRow, values: Mapping[str, Any]) -> None:
    """These of its columns: most are as they were, and setting one costs ten times what looking does (twenty times by
    SQLModel's own way)."""
    for name, value in values.items():
        if getattr(row, name) != value:
            set_attribute(row, name, value)


def _engine(session: Session, row: NodeRow, said: machine.Engine, now: datetime, terms: Terms) -> None:
    """Charts mark restarts and other versions by these entries. A trial node's are part of its study."""
    before = machine.Engine(row.engine_process, row.engine_version)
    after = said.or_as(before)
    row.engine_process, row.engine_version = after.process, after.version
    news = machine.engine_news(before, after)
    if news is None or row.role == NodeRole.TRIAL.value or not terms.events.allows(row.node):
        return
    if news is machine.EngineNews.VERSION:
        message = f"the engine of node {row.node} is {after.version}, was {before.version}"
    else:
        message = f"the engine of node {row.node} was started again" + (f": {after.version}" if after.version else "")
    told = {"process": after.process, "version": after.version, "before": asdict(before)}
    ledger.append(session, now, f"agent {row.node}", news.value, f"node/{row.node}", message, pool=row.pool, **told)


def _acknowledge(session: Session, row: NodeRow, said: machine.Acknowledged, now: datetime, terms: Terms) -> None:
    before = acknowledged_of(row)
    _set(row, _of_config(said))
    _tell(session, row.node, before, said, now, terms, row)


def _tell(
    session: Session,
    node: str,
    before: machine.Acknowledged,
    said: machine.Acknowledged,
    now: datetime,
    terms: Terms,
    row: NodeRow | None = None,
) -> None:
    """Write down what became of a configuration, where that is news. row: the node's, where it has failed."""
    same = said.status is before.status and machine.revision_part(said.hash) == machine.revision_part(before.hash)
    news = not same or said.error != before.error
    if not news or not said.hash or said.status not in (ConfigStatus.APPLIED, ConfigStatus.FAILED):
        return
    if not terms.events.allows(node):
        return
    number = said.hash.partition(":")[0]
    failed = said.status is ConfigStatus.FAILED
    kind = CONFIG_FAILED if failed else CONFIG_APPLIED
    message = f"revision {number} could not be applied: {said.error}" if failed else f"revision {number} applied"
    if failed and said.error.startswith(LEASE_ENDED):
        kind, message = CONFIG_LEFT, f"revision {number} was left: {said.error}"
    evidence = {} if not failed or row is None else _failure(session, row, number, said.error)
    ledger.append(session, now, f"agent {node}", kind, f"node/{node}", message, hash=said.hash, **evidence)


def _failure(session: Session, row: NodeRow, number: str, error: str) -> dict[str, Any]:
    """What is known at this moment of a configuration that failed: the agent's way back overwrites the row soon."""
    production, effective = fleet.pool_revision(session, row.pool), effective_of(row)
    try:
        wanted = fleet.revision(session, int(number)).knobs.knobs()
        other = production is not None and production != int(number)
        before = fleet.revision(session, production).knobs.knobs() if other and production else {}
    except (NotFound, ValueError):  # A foreign agent may acknowledge what it was never offered.
        wanted, before = {}, {}
    if not before and effective is not None:
        before = machine.known(effective)
    differing = machine.differing_knobs(wanted, before)
    return {
        "node": row.node,
        "pool": row.pool,
        "role": row.role,
        "revision": int(number) if number.isdecimal() else None,
        "production_revision": production,
        "effective_revision": None if effective is None else effective.revision,
        "differing": {name: [before[name], wanted[name]] for name in differing},
        "error": error,
    }
