"""A small control plane over real HTTP: the studies' own routes over a database, and the nodes, the workload and the
rollouts that a worker asks for, made up."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from sse_engine import SseEngine

import controlplane.rollouts.tables
import controlplane.studies.tables  # noqa: F401
from controlplane.api import error_handlers
from controlplane.auth import store as tokens
from controlplane.auth.token_cache import TokenCache
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.studies import MEASURED, Study, StudyClaim, StudyCreate, StudyHeartbeat, Trial
from controlplane.contract.bodies.workload import Workload
from controlplane.contract.clock import utc_now
from controlplane.contract.knobs import EngineConfig, parse_config
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.studies import endpoints, lease_endpoints, lease_store, store
from controlplane.studies.meters import LateReports
from controlplane.studies.prompt_sets import prompt_set_endpoints
from controlplane.studies.workloads import workload_endpoints
from tests.keyrings import keyring_of
from tests.made_tables import create_tables

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POOL = "p"


class StudyService:
    """Holds one queued study, number 1. `refuse` names knob values that no trial node can apply. Trial nodes are called
    t1, t2, ..., one for each of `engines`.
    """

    def __init__(
        self,
        engines: Sequence[SseEngine],
        spec: StudyCreate,
        workload: Workload,
        default: dict[str, Any],
        *,
        ticks: bool = False,
    ) -> None:
        """`ticks`: leases end by themselves, as a service's do."""
        self.ticks = ticks
        self.engine = engines[0]
        self.engines = {f"t{place}": engine for place, engine in enumerate(engines, 1)}
        self.workload, self.default = workload, default
        self.model = "m"
        self.beats: list[StudyHeartbeat] = []
        self.rollouts: list[dict[str, Any]] = []
        self.configs: list[dict[str, Any]] = []
        self.applied: list[dict[str, Any]] = []
        self.refuse: dict[str, Any] = {}
        self.canary: dict[str, Any] | None = None  # What one of the two serving nodes runs instead.
        self.with_trial_node = True
        self.refused = False
        self.promotes: dict[str, Any] | None = None  # What the pool runs once the study was claimed.
        self.drafts: dict[str, list[float]] = {}  # What production tells of its drafts, window by window, by metric.
        self.idle_claims = 0  # Asked for a study when there was none.
        self.captured_until: datetime | None = None  # Where the traffic that was asked for ends.
        for engine in engines:
            engine.knobs = EngineConfig().knobs()
        self._folder = tempfile.TemporaryDirectory()
        self.database = Database(f"sqlite:///{Path(self._folder.name) / 'tailwright.db'}")
        create_tables(self.database)
        with self.database.session() as session:
            fleet.place(session, "s0", pool=POOL, role="serving", backend="embedded", now=NOW)
            _, self.token = tokens.issue(session, name="tuner", scope=Scope.OPERATE, now=NOW)
        self.promote(default)
        self.create(spec)
        self._server = uvicorn.Server(uvicorn.Config(self._app(), port=0, log_level="error", lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._ended = threading.Event()
        self._ticking = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> StudyService:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        self.url = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"
        if self.ticks:
            self._ticking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self.ticks:
            self._ticking.join(5)
        self._server.should_exit = True
        self._thread.join(5)
        self.database.close()
        self._folder.cleanup()

    def create(self, spec: StudyCreate) -> int:
        with self.database.session() as session:
            return store.create(session, spec, actor="test", now=utc_now()).id

    def promote(self, knobs: dict[str, Any]) -> None:
        """The pool runs another configuration."""
        with self.database.session() as session:
            number = fleet.create_revision(session, RevisionCreate(knobs=knobs), "test", NOW).number
            fleet.set_pool_revision(session, POOL, number, NOW)

    def add_pool(self, pool: str) -> None:
        """One that runs what this one began with, and has no trial node of its own."""
        with self.database.session() as session:
            fleet.place(session, f"{pool}-0", pool=pool, role="serving", backend="embedded", now=NOW)
            fleet.set_pool_revision(session, pool, 1, NOW)

    def read(self, study_id: int) -> Study:
        with self.database.session() as session:
            return store.get(session, study_id)

    def cancel(self) -> None:
        with self.database.session() as session:
            store.cancel(session, 1, actor="test", now=utc_now())

    @property
    def study(self) -> Study:
        return self.read(1)

    @property
    def trials(self) -> list[Trial]:
        """Those that were measured, by number."""
        return [trial for trial in self.all_trials if trial.state in MEASURED]

    @property
    def all_trials(self) -> list[Trial]:
        return self.trials_of(1)

    def trials_of(self, study_id: int) -> list[Trial]:
        with self.database.session() as session:
            return lease_store.trials(session, study_id, before_id=None, limit=1000)[::-1]

    def _tick(self) -> None:
        while not self._ended.wait(0.1):
            with self.database.session() as session:
                store.expire_leases(session, utc_now())
                lease_store.expire(session, utc_now())

    def _node(self, name: str, role: str, pool: str, knobs: dict[str, Any], engine: SseEngine) -> dict[str, Any]:
        return {
            "node": name, "pool": pool, "role": role, "backend": "embedded", "model": self.model, "connected": True,
            "healthy": True, "effective": {"revision": 1, "knobs": knobs, "cache_reset": engine.resets},
            "desired_cache_reset": engine.resets, "engine_url": engine.url,
            "config_status": "failed" if role == "trial" and self.refused else "applied",
            "config_error": "no such kernel" if self.refused else "", "desired_revision": 7,
        }  # fmt: skip

    def _trial_node(self, name: str) -> dict[str, Any]:
        engine = self.engines[name]
        return self._node(name, "trial", f"{POOL}-trial", engine.knobs, engine)

    def _app(self) -> FastAPI:
        app = FastAPI()
        app.state.service = endpoints.StudyParts(
            database=self.database,
            clock=utc_now,
            tokens=TokenCache(self.database),
            keyring=keyring_of(self.database),
            not_at_rest=lambda session, now: {},
            may_tune=lambda session, pool, principal: None,
            late_reports=LateReports(),
        )
        error_handlers.install(app)

        @app.get("/api/v1/nodes")
        def nodes() -> Any:
            runs = [self.default if self.canary is None else self.canary, self.default]
            serving = [self._node(f"s{n}", "serving", POOL, knobs, self.engine) for n, knobs in enumerate(runs)]
            trial = [self._trial_node(name) for name in self.engines] if self.with_trial_node else []
            return {"items": serving + trial, "next": None}

        @app.get("/api/v1/nodes/{name}")
        def node(name: str) -> Any:
            return self._trial_node(name)

        @app.put("/api/v1/nodes/{name}/trial-config")
        async def trial_config(name: str, request: Request) -> Any:
            wanted = parse_config((await request.json())["knobs"]).knobs()
            self.refused = any(wanted[knob] == value for knob, value in self.refuse.items())
            if not self.refused:
                self.engines[name].knobs = wanted
            self.applied.append(wanted)
            return self._trial_node(name)

        @app.post("/api/v1/nodes/{name}/cache-reset")
        def cache_reset(name: str) -> Any:
            self.engines[name].resets += 1
            return self._trial_node(name)

        @app.get("/api/v1/workload")
        def workload(end: datetime) -> Any:
            self.captured_until = end
            return self.workload

        @app.get("/api/v1/scalars")
        def scalars(request: Request) -> Any:
            asked = dict(request.query_params)
            assert asked["role"] == "serving"
            told = self.drafts.get(asked["metric"], []) if asked["pool"] == POOL else []
            points = [{"time": NOW + timedelta(seconds=5 * place), "value": value} for place, value in enumerate(told)]
            series = [{"labels": {}, "value": sum(told), "points": points}] if told else []
            about = {"metric": asked["metric"], "unit": "{token}", "kind": "sum"}
            return about | {"start": asked["start"], "end": asked["end"], "series": series}

        @app.post("/api/v1/studies/claim")
        def claim(wanted: StudyClaim) -> Any:
            with self.database.session() as session:
                found = store.claim(session, wanted.worker, utc_now(), evaluations=wanted.evaluations)
            if found is None:
                self.idle_claims += 1
                return Response(status_code=204)
            if self.promotes is not None:
                self.promote(self.promotes)
            return found

        @app.post("/api/v1/studies/{study_id}/heartbeat")
        def heartbeat(study_id: int, beat: StudyHeartbeat) -> Any:
            self.beats.append(beat)
            with self.database.session() as session:
                return store.heartbeat(session, study_id, beat, utc_now())

        app.include_router(endpoints.router)
        app.include_router(lease_endpoints.router)
        app.include_router(workload_endpoints.router)
        app.include_router(prompt_set_endpoints.router)

        @app.get("/api/v1/configs/1")
        def production() -> Any:
            knobs = parse_config(self.default).knobs()
            return {"number": 1, "hash": "h", "knobs": knobs, "created_by": "t", "created_at": NOW.isoformat()}

        @app.post("/api/v1/configs", status_code=201)
        async def config(request: Request) -> Any:
            body = await request.json()
            self.configs.append(body)
            return {"number": 9, "hash": "h", "knobs": body["knobs"], "created_by": "t", "created_at": NOW.isoformat()}

        @app.get("/api/v1/rollouts")
        def rollouts() -> Any:
            return {"items": [self._rollout(body) for body in self.rollouts], "next": None}

        @app.post("/api/v1/rollouts", status_code=201)
        async def rollout(request: Request) -> Any:
            body = await request.json()
            self.rollouts.append(body)
            return self._rollout(body)

        return app

    def _rollout(self, body: dict[str, Any]) -> dict[str, Any]:
        return {"id": 4, "phase": "proposed", "spec": body, "created_by": "t", "created_at": NOW.isoformat()}
