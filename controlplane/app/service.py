"""Puts the service together: one application, its store, its fleet hub and its periodic work.

Guarantee: when `create_app` returns, the schema is up to date, and the data directory holds the token files; nothing
runs yet. The lifespan starts the hub and the ticks, and stops them again.
"""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI
from prometheus_client import ProcessCollector, disable_created_metrics

from controlplane.advice.endpoints import AdviceParts
from controlplane.alerts.dry_run.dry_run_desk import DryRunDesk
from controlplane.alerts.endpoints import AlertParts
from controlplane.alerts.lives.expiry import Expiry
from controlplane.alerts.notify.delivery import Deliverer
from controlplane.alerts.rules.defaults import ensure_default_rules
from controlplane.api import docs_page, error_handlers
from controlplane.api.application import DESCRIPTION, TAGS, DocumentedApplication, operation_id
from controlplane.api.body_limit import BodyLimit
from controlplane.api.onboarding_endpoints import OnboardingParts
from controlplane.api.probes import Readiness
from controlplane.api.router import CHECKS, all_routes
from controlplane.api.service_endpoints import ServiceParts
from controlplane.app import secrets_files, sign_in_record
from controlplane.app.background import Background, Tick
from controlplane.app.exports import exporters_of
from controlplane.app.frames import frames_of
from controlplane.app.health_metrics import ServiceHealth
from controlplane.app.online import may_tune
from controlplane.app.own_place import place_of
from controlplane.app.own_tokens import PERIOD_S as OWN_TOKENS_S
from controlplane.app.own_tokens import OwnTokens
from controlplane.app.pool_limits import pool_limits
from controlplane.app.remedies import check_remedy, measured_traffic, not_at_rest
from controlplane.app.settings import ServiceSettings
from controlplane.app.settings_in_force import settings_in_force
from controlplane.app.ticks import ticks_of
from controlplane.auth.node_certificate import NodeCertificates
from controlplane.auth.oidc.issuer import REFRESH_S
from controlplane.auth.personal.old_rows import OldRows
from controlplane.auth.sign_in_parts import SignInParts
from controlplane.auth.token_cache import TokenCache
from controlplane.auth.token_uses import TokenUses
from controlplane.auth.turned_away import TurnedAway
from controlplane.auth.watch.security_log import PERIOD_S as SECURITY_LOG_S
from controlplane.auth.watch.security_log import SecurityLog
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.clock import Clock, utc_now
from controlplane.contract.host_names import is_loopback
from controlplane.contract.metrics import WINDOW_S
from controlplane.db.database import Database
from controlplane.db.disk_space import DiskSpace
from controlplane.db.migrate import upgrade
from controlplane.fleet import FleetHub
from controlplane.fleet import store as fleet
from controlplane.inbound.endings import InboundKeeper
from controlplane.inbound.endpoints import InboundParts
from controlplane.inbound.no_room import Refusals
from controlplane.incidents.endpoints import IncidentParts
from controlplane.incidents.upkeep import IncidentKeeper
from controlplane.keys import Keyring
from controlplane.ledger import signing
from controlplane.ledger.head_file import PERIOD_S, HeadFile
from controlplane.outgoing import LOOPBACK
from controlplane.rollouts.endpoints import RolloutParts
from controlplane.rollouts.hooks.hook_caller import HookCaller
from controlplane.rollouts.reach.reach_endpoints import ReachDesk
from controlplane.rollouts.verdicts.verdict_endpoints import VerdictDesk, VerdictParts
from controlplane.serving import owned_files
from controlplane.serving.limits import Doorkeeper, Refused
from controlplane.serving.proxies import Proxies
from controlplane.serving.tls import ServerTls
from controlplane.studies.endpoints import StudyParts
from controlplane.studies.meters import LateReports
from controlplane.telemetry.forwarding.meters import ExportMeters
from controlplane.telemetry.queries.budget import QueryDesk
from controlplane.telemetry.queries.feeds import Streams
from controlplane.telemetry.store import TelemetryStore
from controlplane.terminal.checkout import release
from controlplane.whatif.endpoints import WhatIfParts
from controlplane.whatif.twin_desk import TwinDesk

TWIN = (sys.executable, "-m", "tuner.twin")
"""The twin's process. By name: the control plane knows nothing of it."""


@dataclass(frozen=True, kw_only=True)
class Service(
    AlertParts,
    IncidentParts,
    InboundParts,
    RolloutParts,
    VerdictParts,
    StudyParts,
    AdviceParts,
    WhatIfParts,
    ServiceParts,
    SignInParts,
    OnboardingParts,
):
    """All that a running service is made of: what each domain's routes are served with, and what starts and ends."""

    settings: ServiceSettings
    door: Doorkeeper
    deliverer: Deliverer
    hook_caller: HookCaller
    background: Background


def create_app(settings: ServiceSettings, clock: Clock = utc_now) -> FastAPI:
    """The application over its database. `Service.of` gives what it is made of. Raises BadSettings."""
    door = Doorkeeper(exempt=Proxies.of(settings.forwarded_allow_ips))
    revoked = partial(door.refuse_access, Refused.CERTIFICATE_REVOKED, "a handshake")
    tls = None if settings.tls is None else ServerTls(settings.tls, clock, revoked)
    owned_files.make_folder(settings.data_dir, "data_dir")
    if settings.database_url is None:
        # SQLite gives its side files the same mode, and follows links.
        owned_files.touch(settings.database_file, "data_dir")
        for side in ("-wal", "-shm", "-journal"):
            owned_files.refuse_link(settings.database_file.with_name(settings.database_file.name + side), "data_dir")
    database = Database(settings.url)
    upgrade(database)
    keyring = settings.keyring
    keyring.refuse_clear()
    keyring.open(database)
    with database.session() as session:
        secrets_files.ensure(session, settings.data_dir, clock(), settings.first_tokens_last)
        sign_in_record.keep(session, settings, clock())
        ensure_default_rules(session, clock())
    app = DocumentedApplication(
        _service(settings, database, keyring, clock, door, tls),
        error_handlers.error_response,
        title="Tailwright",
        description=DESCRIPTION,
        version=release(),
        lifespan=_lifespan,
        dependencies=CHECKS,
        openapi_tags=TAGS,
        generate_unique_id_function=operation_id,
        openapi_url=docs_page.DOCUMENT if settings.public_docs else None,
        docs_url=None,
        redoc_url=None,
    )
    error_handlers.install(app)
    docs_page.install(app, public=settings.public_docs)
    app.add_middleware(BodyLimit)
    app.router.routes.extend(all_routes())
    return app


def _service(
    settings: ServiceSettings,
    database: Database,
    keyring: Keyring,
    clock: Clock,
    door: Doorkeeper,
    tls: ServerTls | None,
) -> Service:
    disk, stop = DiskSpace(database), threading.Event()
    hub = FleetHub(database, door, token_days=settings.node_token_days, lease_s=settings.lease_s, clock=clock)
    ledger_key = signing.key_of(settings.data_dir)
    # One folder of data is one process's: on SQLite nobody else sends.
    deliverer = Deliverer(
        database, keyring, clock=clock, policy=settings.outgoing, ledger_key=ledger_key, sole=database.is_sqlite
    )
    telemetry = TelemetryStore(
        database,
        clock,
        retention=settings.retention,
        frames=frames_of(settings, database),
        not_serving=partial(_trial_nodes, database),
        free_bytes=disk.free_bytes,
    )
    # It drops a second series for each counter, which nobody asks for; the library has no annotation on it.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    shown = telemetry.meters.registry
    shown.register(hub.left_out)
    exporters = exporters_of(settings, database, telemetry, clock, ExportMeters(shown))
    url, kept_s = settings.public_url, settings.retention.levels_s[int(WINDOW_S)]
    uses = TokenUses()
    ticks = ticks_of(
        database,
        telemetry,
        hub,
        deliverer,
        url,
        exporters=exporters,
        finest_kept_s=kept_s,
        token_uses=uses,
        expiry=Expiry(database, timedelta(days=settings.alert_history_days), shown),
        incidents=IncidentKeeper(database, timedelta(days=settings.alert_history_days)),
        old_rows=OldRows(database, timedelta(days=settings.personal_data_days), shown),
        inbound=InboundKeeper(database, timedelta(days=settings.alert_history_days)),
    )
    hook_caller = HookCaller(
        database, keyring, policy=settings.outgoing, clock=clock, registry=shown, sole=database.is_sqlite
    )
    ticks.append(Tick("rollout_hooks", 1.0, hook_caller.tick))
    issuer = settings.issuer(url, LOOPBACK if is_loopback(settings.host) else ())
    if issuer is not None:
        ticks.append(Tick("oidc_issuer", REFRESH_S, lambda _: issuer.refresh()))
    ticks.append(Tick("first_tokens", secrets_files.RENEWAL_S, partial(_renew_first_tokens, settings, database)))
    if settings.keeps_worker:
        ticks.append(Tick("own_tokens", OWN_TOKENS_S, OwnTokens(database, settings.data_dir).tick))
    if settings.ledger_head_file is not None:
        ticks.append(Tick("ledger_head", PERIOD_S, HeadFile(database, settings.ledger_head_file, ledger_key).keep))
    security_log = SecurityLog()
    turned_away = TurnedAway(security_log)
    door.tell = security_log.refused_at_the_door
    ticks.append(Tick("security_log", SECURITY_LOG_S, lambda _: security_log.tell_due()))
    background = Background(ticks, clock, stop)
    parts = (database, background, exporters, telemetry, disk, door, turned_away, release())
    shown.register(ServiceHealth(*parts, tls, keyring.command))
    ProcessCollector(registry=shown)
    return Service(
        settings=settings,
        door=door,
        tls=tls,
        database=database,
        clock=clock,
        stop=stop,
        tokens=TokenCache(database, clock=clock),
        token_uses=uses,
        issuer=issuer,
        token_sign_in=settings.token_sign_in,
        login_url=f"{url}/login",
        two_for_emergency=settings.emergency_approval == "two",
        keyring=keyring,
        node_certificates=NodeCertificates(settings.tls_client_ca is not None, door),
        security_log=security_log,
        turned_away=turned_away,
        telemetry=telemetry,
        metrics_token=secrets_files.metrics_token(settings.metrics_token_file),
        desk=QueryDesk(settings.queries, door),
        streams=Streams(telemetry.latest, clock, stop),
        fleet=hub,
        public_url=url,
        place=place_of(settings),
        local=is_loopback(settings.host),
        inbound_refusals=Refusals(shown),
        check_remedy=check_remedy,
        dry_runs=DryRunDesk(database, telemetry, settings.retention.levels_s),
        pool_limits=pool_limits,
        verdicts=VerdictDesk(telemetry),
        reach=ReachDesk(telemetry),
        outgoing=settings.outgoing,
        not_at_rest=not_at_rest,
        measured_on=measured_traffic,
        late_reports=LateReports(shown),
        may_tune=may_tune,
        traffic=telemetry,
        twin=TwinDesk(TWIN, settings.vllm_python),
        deliverer=deliverer,
        hook_caller=hook_caller,
        disk=disk,
        readiness=Readiness(),
        in_force=settings_in_force(settings),
        ledger_key=ledger_key,
        exporters=exporters,
        ticks=background.report,
        background=background,
    )


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service = Service.of(app)
    service.stop.clear()
    await to_thread.run_sync(service.telemetry.start)
    hub = asyncio.create_task(service.fleet.run(), name="fleet-hub")
    service.background.start()
    try:
        yield
    finally:
        service.stop.set()
        service.fleet.end_all()
        hub.cancel()
        with suppress(asyncio.CancelledError):
            await hub
        for exporter in service.exporters:
            exporter.stop()
        own_thread = CapacityLimiter(1)  # Slow queries may hold all of the others.
        await to_thread.run_sync(service.background.stop, limiter=own_thread)
        for exporter in service.exporters:
            exporter.close()
        await to_thread.run_sync(service.telemetry.close, limiter=own_thread)
        service.deliverer.close()
        service.hook_caller.close()
        service.security_log.tell_all()
        service.database.close()


def _renew_first_tokens(settings: ServiceSettings, database: Database, now: datetime) -> None:
    with database.session() as session:
        secrets_files.renew(session, settings.data_dir, now, settings.first_tokens_last)


def _trial_nodes(database: Database) -> list[str]:
    """Nodes whose requests are experiments, not production traffic."""
    with database.read_session() as session:
        return [view.node for view in fleet.nodes(session, role=NodeRole.TRIAL)]
