"""A small control plane over real HTTP: nodes, a workload, and the study and rollout calls a worker makes."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from sse_engine import SseEngine

from controlplane.contract.bodies.studies import Study, StudyCreate, StudyState, Trial
from controlplane.contract.bodies.workload import Workload
from controlplane.contract.knobs import EngineConfig, parse_config

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class StudyService:
    """Holds one queued study. `refuse` names knob values that the trial node cannot apply."""

    def __init__(self, engine: SseEngine, spec: StudyCreate, workload: Workload, default: dict[str, Any]) -> None:
        self.engine, self.workload, self.default = engine, workload, default
        self.study = Study(id=1, state=StudyState.QUEUED, spec=spec, created_by="test", created_at=NOW)
        self.study.default_revision = self.study.pool_revision = 1
        self.model = "m"
        self.trials: list[Trial] = []
        self.beats: list[dict[str, Any]] = []
        self.rollouts: list[dict[str, Any]] = []
        self.configs: list[dict[str, Any]] = []
        self.applied: list[dict[str, Any]] = []
        self.refuse: dict[str, Any] = {}
        self.canary: dict[str, Any] | None = None  # What one of the two serving nodes runs instead.
        self.with_trial_node = True
        self.refused = False
        self.idle_claims = 0  # Asked for a study when there was none.
        engine.knobs = EngineConfig().knobs()
        self._server = uvicorn.Server(uvicorn.Config(self._app(), port=0, log_level="error", lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> StudyService:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        self.url = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(5)

    def _node(self, name: str, role: str, pool: str, knobs: dict[str, Any]) -> dict[str, Any]:
        return {
            "node": name, "pool": pool, "role": role, "backend": "embedded", "model": self.model, "connected": True,
            "healthy": True, "effective": {"revision": 1, "knobs": knobs, "cache_reset": self.engine.resets},
            "desired_cache_reset": self.engine.resets, "engine_url": self.engine.url,
            "config_status": "failed" if role == "trial" and self.refused else "applied",
            "config_error": "no such kernel" if self.refused else "", "desired_revision": 7,
        }  # fmt: skip

    def _trial_node(self) -> dict[str, Any]:
        return self._node("t1", "trial", "p-trial", self.engine.knobs)

    def _held(self) -> JSONResponse | None:
        if self.study.state is StudyState.RUNNING:
            return None
        return JSONResponse({"error": {"code": "conflict", "message": "not running", "detail": {}}}, 409)

    def _app(self) -> FastAPI:
        app = FastAPI()

        @app.get("/api/v1/nodes")
        def nodes() -> Any:
            runs = [self.default if self.canary is None else self.canary, self.default]
            serving = [self._node(f"s{index}", "serving", "p", knobs) for index, knobs in enumerate(runs)]
            return {"items": serving + ([self._trial_node()] if self.with_trial_node else []), "next": None}

        @app.get("/api/v1/nodes/t1")
        def node() -> Any:
            return self._trial_node()

        @app.put("/api/v1/nodes/t1/trial-config")
        async def trial_config(request: Request) -> Any:
            wanted = parse_config((await request.json())["knobs"]).knobs()
            self.refused = any(wanted[name] == value for name, value in self.refuse.items())
            if not self.refused:
                self.engine.knobs = wanted
            self.applied.append(wanted)
            return self._trial_node()

        @app.post("/api/v1/nodes/t1/cache-reset")
        def cache_reset() -> Any:
            self.engine.resets += 1
            return self._trial_node()

        @app.get("/api/v1/workload")
        def workload() -> Any:
            return self.workload

        @app.post("/api/v1/studies/claim")
        def claim() -> Any:
            if self.study.state is not StudyState.QUEUED:
                self.idle_claims += 1
                return Response(status_code=204)
            self.study.state = StudyState.RUNNING
            return self.study

        @app.post("/api/v1/studies/1/heartbeat")
        async def heartbeat(request: Request) -> Any:
            self.beats.append(await request.json())
            return self._held() or self.study

        @app.post("/api/v1/studies/1/trials", status_code=201)
        async def trial(request: Request) -> Any:
            if refused := self._held():
                return refused
            self.trials.append(Trial(**(await request.json()), id=len(self.trials) + 1, study_id=1, reported_at=NOW))
            return self.trials[-1]

        @app.post("/api/v1/studies/1/finish")
        async def finish(request: Request) -> Any:
            if refused := self._held():
                return refused
            body = await request.json()
            body["state"] = StudyState.FAILED if body["error"] else StudyState.FINISHED
            self.study = Study.model_validate(self.study.model_dump() | body)
            return self.study

        @app.get("/api/v1/studies/1")
        def read() -> Any:
            return self.study

        @app.get("/api/v1/configs/1")
        def production() -> Any:
            knobs = parse_config(self.default).knobs()
            return {"number": 1, "hash": "h", "knobs": knobs, "created_by": "t", "created_at": NOW.isoformat()}

        @app.post("/api/v1/configs", status_code=201)
        async def config(request: Request) -> Any:
            body = await request.json()
            self.configs.append(body)
            return {"number": 9, "hash": "h", "knobs": body["knobs"], "created_by": "t", "created_at": NOW.isoformat()}

        @app.post("/api/v1/rollouts", status_code=201)
        async def rollout(request: Request) -> Any:
            body = await request.json()
            self.rollouts.append(body)
            return {"id": 4, "phase": "proposed", "spec": body, "created_by": "t", "created_at": NOW.isoformat()}

        return app
