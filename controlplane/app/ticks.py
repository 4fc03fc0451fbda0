"""The list of the service's periodic work, with its periods."""

from collections.abc import Callable, Sequence
from datetime import datetime

from sqlmodel import Session

from controlplane.alerts.evaluator import FOR_EVER_S, AlertEvaluator
from controlplane.alerts.lives.expiry import PERIOD_S as EXPIRY_S
from controlplane.alerts.lives.expiry import Expiry
from controlplane.alerts.notify.account_notices import PERIOD_S as NOTICES_S
from controlplane.alerts.notify.account_notices import AccountNotices
from controlplane.alerts.notify.delivery import Deliverer
from controlplane.app import allocation
from controlplane.app.background import Tick, giving_way
from controlplane.app.online import OnlineTuning
from controlplane.app.remedies import Remedies, try_again
from controlplane.auth import token_ends
from controlplane.auth.personal.old_rows import PERIOD_S as PERSONAL_S
from controlplane.auth.personal.old_rows import OldRows
from controlplane.auth.token_ends import PERIOD_S as ENDS_S
from controlplane.auth.token_uses import PERIOD_S, TokenUses
from controlplane.db.database import Database
from controlplane.db.sole_replica import SoleReplica
from controlplane.fleet import FleetHub
from controlplane.fleet import store as fleet
from controlplane.inbound.endings import InboundKeeper
from controlplane.incidents.upkeep import IncidentKeeper
from controlplane.rollouts import store as rollouts
from controlplane.rollouts.controller import RolloutController
from controlplane.studies import lease_store
from controlplane.studies import store as studies
from controlplane.telemetry.forwarding.exporter import Exporter
from controlplane.telemetry.store import TelemetryStore

READING_LOCK = 0x72656164
"""PostgreSQL's advisory lock of the one replica that folds and evaluates ("read")."""


class RulesNotJudgedError(Exception):
    """Some alert rules could not be judged; the others were, and what they found is written."""


def ticks_of(
    database: Database,
    telemetry: TelemetryStore,
    hub: FleetHub,
    deliverer: Deliverer,
    public_url: str,
    exporters: Sequence[Exporter] = (),
    finest_kept_s: float = FOR_EVER_S,
    token_uses: TokenUses | None = None,
    expiry: Expiry | None = None,
    incidents: IncidentKeeper | None = None,
    inbound: InboundKeeper | None = None,
    old_rows: OldRows | None = None,
) -> list[Tick]:
    def in_transaction(act: Callable[[Session, datetime], object]) -> Callable[[datetime], None]:
        def run(now: datetime) -> None:
            with database.session() as session:
                act(session, now)

        return run

    uses = token_uses or TokenUses()
    remedies = Remedies()
    evaluator = AlertEvaluator(
        database,
        telemetry,
        on_fire=remedies,
        external_url=public_url,
        finest_kept_s=finest_kept_s,
        rollouts=rollouts.waiting,
    )

    def evaluate(now: datetime) -> None:
        evaluator.tick(now)
        try_again(database, remedies, now)
        if remedies.take_news():
            hub.poke()

    keeper = incidents or IncidentKeeper(database)
    foreign = inbound or InboundKeeper(database)
    # Both read all that has come in lately, whichever replica has taken it in: where one reads it, no other has to.
    reading = SoleReplica(database, READING_LOCK)
    evaluate_alone = reading.only(evaluate)

    def evaluation(now: datetime) -> None:
        evaluator.failing.clear()
        evaluate_alone(now)
        if evaluator.failing:  # Told here, outside of what is one replica's alone: another could not judge them either.
            raise RulesNotJudgedError(f"not judged: {', '.join(evaluator.failing)}")

    def liveness(now: datetime) -> None:
        hub.beats.write(database)
        with database.session() as session:
            fleet.expire_silent(session, now)

    return [
        Tick("telemetry_compaction", 5.0, reading.only(telemetry.tick, otherwise=telemetry.follow)),
        Tick("alert_evaluation", 5.0, evaluation),
        Tick("inbound_alerts", 5.0, reading.only(foreign.tick)),
        Tick("incidents", 5.0, reading.only(keeper.tick)),
        Tick("webhook_delivery", 1.0, deliverer.tick),
        # While a wave reports there is nothing to decide yet, and what it would take the wave waits for.
        Tick("rollouts", 1.0, giving_way(RolloutController(database, telemetry, hub.poke).tick, hub.is_flooded)),
        Tick("online_tuning", 1.0, OnlineTuning(database, telemetry, hub.poke).tick),
        Tick("study_leases", 5.0, in_transaction(studies.expire_leases)),
        Tick("trial_leases", 5.0, in_transaction(lease_store.expire)),
        Tick("fleet_liveness", 5.0, liveness),
        Tick("account_notices", NOTICES_S, AccountNotices(database, public_url).tick),
        Tick("token_ends", ENDS_S, reading.only(in_transaction(token_ends.tell))),
        Tick("token_uses", PERIOD_S, lambda now: uses.write(database, now)),
        *([] if expiry is None else [Tick("alert_history", EXPIRY_S, expiry.tick)]),
        *([] if old_rows is None else [Tick("personal_data", PERSONAL_S, reading.only(old_rows.tick))]),
        Tick("incident_history", EXPIRY_S, reading.only(keeper.expire)),
        Tick("inbound_history", EXPIRY_S, reading.only(foreign.expire)),
        Tick("memory", 60.0, allocation.trim),
        *(Tick(f"export_{exporter.name}", 1.0, exporter.tick) for exporter in exporters),
    ]
