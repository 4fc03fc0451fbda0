"""The typed client everybody uses: dashboard, tuner, agents, command line, demo, and automated config rollout.

Guarantee: an error answer of the service is raised as the matching class of `controlplane.contract.errors`, with its
message and detail; a connection problem is raised as httpx's own error. Thread-safe, as httpx.Client is.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel

from controlplane import client_stream
from controlplane.client_stream import Streamed
from controlplane.contract import errors
from controlplane.contract.access import EnrolmentReply, EnrolmentRequest, TokenCreate, TokenCreated, TokenView
from controlplane.contract.alerts import (
    Alert,
    AlertRule,
    AlertRuleCreate,
    Delivery,
    Destination,
    DestinationCreate,
    Silence,
    SilenceCreate,
)
from controlplane.contract.configs import Revision, RevisionCreate
from controlplane.contract.ledger import LedgerEntry
from controlplane.contract.metrics import LABELS
from controlplane.contract.nodes import NodeView, TrialConfig
from controlplane.contract.pages import Page
from controlplane.contract.rollouts import Rollout, RolloutCreate
from controlplane.contract.studies import (
    Study,
    StudyClaim,
    StudyCreate,
    StudyFinish,
    StudyHeartbeat,
    Trial,
    TrialReport,
)
from controlplane.contract.telemetry import (
    Exemplar,
    HeatmapAnswer,
    QuantilesAnswer,
    RatesAnswer,
    ScalarsAnswer,
    SharesAnswer,
)
from controlplane.contract.workload import RequestRecord, Workload

M = TypeVar("M", bound=BaseModel)
CONNECT_TIMEOUT_S = 10.0
Window = str | None


def _error_classes() -> dict[str, type[errors.TrimtabError]]:
    found: dict[str, type[errors.TrimtabError]] = {}
    waiting: list[type[errors.TrimtabError]] = [errors.TrimtabError]
    while waiting:
        cls = waiting.pop()
        found[cls.code] = cls
        waiting.extend(cls.__subclasses__())
    return found


_BY_CODE = _error_classes()
_BY_STATUS = {cls.status: cls for cls in _BY_CODE.values() if cls.__bases__ == (errors.TrimtabError,)}


def raise_for_error(response: httpx.Response) -> None:
    """Raise the contract's error for a 4xx or 5xx answer."""
    if response.is_success:
        return
    try:
        error = response.json()["error"]
        code, message, detail = error["code"], error["message"], error.get("detail") or {}
    except (ValueError, KeyError, TypeError):
        code, message, detail = "", f"{response.status_code} from {response.request.url}: {response.text[:200]}", {}
    cls = _BY_CODE.get(code) or _BY_STATUS.get(response.status_code, errors.TrimtabError)
    if issubclass(cls, errors.Overloaded):
        raise cls(message, retry_after_s=float(response.headers.get("Retry-After", 1)))
    raise cls(message, **detail)


class Client:
    """One service at `base_url`, with one bearer token. Use as a context manager, or call `close`."""

    def __init__(
        self,
        base_url: str,
        token: str | None = None,
        *,
        timeout_s: float = 10.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=base_url, headers=headers, timeout=timeout_s, transport=transport)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- plumbing ------------------------------------------------------------------------------------------------

    def _request(
        self, method: str, path: str, *, body: BaseModel | None = None, params: Mapping[str, Any] | None = None
    ) -> httpx.Response:
        query = {name: _query(value) for name, value in (params or {}).items() if value is not None}
        json = None if body is None else body.model_dump(mode="json", exclude_unset=False)
        response = self._http.request(method, path, params=query, json=json)
        raise_for_error(response)
        return response

    def _one(
        self,
        model: type[M],
        method: str,
        path: str,
        *,
        body: BaseModel | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> M:
        return model.model_validate_json(self._request(method, path, body=body, params=params).content)

    def _page(self, model: type[M], path: str, **params: Any) -> Page[M]:
        answer = self._request("GET", path, params=params)
        return Page[model].model_validate_json(answer.content)  # type: ignore[valid-type]

    def every(self, model: type[M], path: str, **params: Any) -> Iterator[M]:
        """All items of a collection, page after page."""
        cursor: str | None = None
        while True:
            page = self._page(model, path, cursor=cursor, **params)
            yield from page.items
            if page.next is None:
                return
            cursor = page.next

    # -- health, access ------------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """True when reports are accepted and durable."""
        return self._http.get("/readyz").status_code == 200

    def whoami(self) -> TokenView:
        return self._one(TokenView, "GET", "/api/v1/tokens/self")

    def create_token(self, wanted: TokenCreate) -> TokenCreated:
        return self._one(TokenCreated, "POST", "/api/v1/tokens", body=wanted)

    def tokens(self) -> list[TokenView]:
        return list(self.every(TokenView, "/api/v1/tokens"))

    def revoke_token(self, token_id: int) -> None:
        self._request("DELETE", f"/api/v1/tokens/{token_id}")

    def enrol(self, wanted: EnrolmentRequest) -> EnrolmentReply:
        return self._one(EnrolmentReply, "POST", "/api/v1/enrol", body=wanted)

    # -- telemetry -----------------------------------------------------------------------------------------------

    def quantiles(
        self,
        metric: str,
        q: Sequence[float] = (0.5, 0.95, 0.99),
        *,
        window: Window = None,
        start: datetime | None = None,
        end: datetime | None = None,
        step: Window = None,
        by: Sequence[str] = (),
        **labels: str | None,
    ) -> QuantilesAnswer:
        """Quantiles of a histogram metric by its short name; labels filter (node="a", revision="3")."""
        params = {"metric": metric, "q": q, "window": window, "start": start, "end": end, "step": step}
        return self._one(QuantilesAnswer, "GET", "/api/v1/quantiles", params={**params, "by": by or None, **labels})

    def scalars(
        self,
        metric: str,
        *,
        window: Window = None,
        start: datetime | None = None,
        end: datetime | None = None,
        step: Window = None,
        by: Sequence[str] = (),
        **labels: str | None,
    ) -> ScalarsAnswer:
        """Gauges and sums by their short name."""
        params = {"metric": metric, "window": window, "start": start, "end": end, "step": step}
        return self._one(ScalarsAnswer, "GET", "/api/v1/scalars", params={**params, "by": by or None, **labels})

    def rates(
        self,
        metric: str,
        *,
        window: Window = None,
        start: datetime | None = None,
        end: datetime | None = None,
        step: Window = None,
        by: Sequence[str] = (),
        **labels: str | None,
    ) -> RatesAnswer:
        """What a sum, or the count of a histogram, grew by in a second."""
        params = {"metric": metric, "window": window, "start": start, "end": end, "step": step}
        return self._one(RatesAnswer, "GET", "/api/v1/rates", params={**params, "by": by or None, **labels})

    def shares(
        self,
        *,
        above: float | None = None,
        metric: str | None = None,
        window: Window = None,
        start: datetime | None = None,
        end: datetime | None = None,
        step: Window = None,
        by: Sequence[str] = (),
        **labels: str | None,
    ) -> SharesAnswer:
        """Each component's share of e2e; with `above`, the share of `metric`'s values (e2e's) above so many seconds."""
        params = {"metric": metric, "above": above, "window": window, "start": start, "end": end, "step": step}
        return self._one(SharesAnswer, "GET", "/api/v1/shares", params={**params, "by": by or None, **labels})

    def heatmap(
        self,
        metric: str,
        step: str,
        *,
        rows: int | None = None,
        window: Window = None,
        start: datetime | None = None,
        end: datetime | None = None,
        by: Sequence[str] = (),
        **labels: str | None,
    ) -> HeatmapAnswer:
        """How many values lie in each row of the axis at each step."""
        params = {"metric": metric, "rows": rows, "window": window, "start": start, "end": end, "step": step}
        return self._one(HeatmapAnswer, "GET", "/api/v1/heatmap", params={**params, "by": by or None, **labels})

    def exemplars(self, metric: str = "ttft", **params: Any) -> Page[Exemplar]:
        """The slowest requests with their waterfalls; params: pool, node, prompt_bucket, window, start, end, above."""
        return self._page(Exemplar, "/api/v1/exemplars", metric=metric, **params)

    def stream(
        self,
        query: str,
        metric: str | None = None,
        *,
        window: Window = None,
        step: Window = None,
        by: Sequence[str] = (),
        last_id: str = "",
        **more: Any,
    ) -> Iterator[Streamed]:
        """The answer of a query ("quantiles", "rates", "shares") anew for each complete window.

        `more`: q, above, labels. It goes on for ever, across lost connections: leave it with `break`, or close it.
        """
        given = {"query": query, "metric": metric, "window": window, "step": step, "by": by or None, **more}
        params = {name: _query(value) for name, value in given.items() if value is not None}
        timeout = httpx.Timeout(self._http.timeout.connect, read=client_stream.SILENCE_S)

        def open_stream(headers: Mapping[str, str]) -> AbstractContextManager[httpx.Response]:
            return self._http.stream("GET", "/api/v1/stream", params=params, headers=dict(headers), timeout=timeout)

        return client_stream.follow(open_stream, raise_for_error, last_id=last_id)

    def send_report(self, path: str, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """POST telemetry (`/v1/metrics`, `/v1/traces`) as it is; the answer when it has been kept."""
        answer = self._http.post(path, content=body, headers=dict(headers))
        raise_for_error(answer)
        return answer

    def workload(self, pool: str, *, start: datetime, end: datetime) -> Workload:
        return self._one(Workload, "GET", "/api/v1/workload", params={"pool": pool, "start": start, "end": end})

    def requests(self, **params: Any) -> Page[RequestRecord]:
        """Finished requests with waterfalls; params: pool, node, window, start, end, limit, order (slowest, newest)."""
        return self._page(RequestRecord, "/api/v1/requests", **params)

    def export(self, *, read_timeout_s: float = 120.0, **params: Any) -> Iterator[bytes]:
        """A CSV or Parquet file as it comes; params as GET /api/v1/export takes them. A broken transfer raises."""
        given = {name: value for name, value in params.items() if value is not None}
        # A label's list is any of its values, and repeated; other lists are one parameter.
        query = {name: value if name in LABELS else _query(value) for name, value in given.items()}
        timeout = httpx.Timeout(CONNECT_TIMEOUT_S, read=read_timeout_s)
        with self._http.stream("GET", "/api/v1/export", params=query, timeout=timeout) as response:
            if not response.is_success:
                response.read()
            raise_for_error(response)
            yield from response.iter_bytes()

    # -- fleet ---------------------------------------------------------------------------------------------------

    def nodes(self) -> list[NodeView]:
        return list(self.every(NodeView, "/api/v1/nodes"))

    def node(self, node: str) -> NodeView:
        return self._one(NodeView, "GET", f"/api/v1/nodes/{node}")

    def set_trial_config(self, node: str, wanted: TrialConfig) -> NodeView:
        return self._one(NodeView, "PUT", f"/api/v1/nodes/{node}/trial-config", body=wanted)

    def configs(self) -> list[Revision]:
        return list(self.every(Revision, "/api/v1/configs"))

    def config(self, number: int) -> Revision:
        return self._one(Revision, "GET", f"/api/v1/configs/{number}")

    def create_config(self, wanted: RevisionCreate) -> Revision:
        return self._one(Revision, "POST", "/api/v1/configs", body=wanted)

    # -- alerts --------------------------------------------------------------------------------------------------

    def alert_rules(self) -> list[AlertRule]:
        return list(self.every(AlertRule, "/api/v1/alert-rules"))

    def create_alert_rule(self, wanted: AlertRuleCreate) -> AlertRule:
        return self._one(AlertRule, "POST", "/api/v1/alert-rules", body=wanted)

    def update_alert_rule(self, rule_id: int, wanted: AlertRuleCreate) -> AlertRule:
        return self._one(AlertRule, "PUT", f"/api/v1/alert-rules/{rule_id}", body=wanted)

    def delete_alert_rule(self, rule_id: int) -> None:
        self._request("DELETE", f"/api/v1/alert-rules/{rule_id}")

    def alerts(self, state: str | None = None) -> list[Alert]:
        """Newest first."""
        return list(self.every(Alert, "/api/v1/alerts", state=state))

    def alert(self, alert_id: int) -> Alert:
        return self._one(Alert, "GET", f"/api/v1/alerts/{alert_id}")

    def destinations(self) -> list[Destination]:
        return list(self.every(Destination, "/api/v1/destinations"))

    def create_destination(self, wanted: DestinationCreate) -> Destination:
        return self._one(Destination, "POST", "/api/v1/destinations", body=wanted)

    def delete_destination(self, destination_id: int) -> None:
        self._request("DELETE", f"/api/v1/destinations/{destination_id}")

    def deliveries(self, alert_id: int | None = None) -> list[Delivery]:
        return list(self.every(Delivery, "/api/v1/deliveries", alert_id=alert_id))

    def silences(self) -> list[Silence]:
        return list(self.every(Silence, "/api/v1/silences"))

    def create_silence(self, wanted: SilenceCreate) -> Silence:
        return self._one(Silence, "POST", "/api/v1/silences", body=wanted)

    def end_silence(self, silence_id: int) -> None:
        self._request("DELETE", f"/api/v1/silences/{silence_id}")

    # -- studies -------------------------------------------------------------------------------------------------

    def studies(self) -> list[Study]:
        """Newest first."""
        return list(self.every(Study, "/api/v1/studies"))

    def study(self, study_id: int) -> Study:
        return self._one(Study, "GET", f"/api/v1/studies/{study_id}")

    def create_study(self, wanted: StudyCreate) -> Study:
        return self._one(Study, "POST", "/api/v1/studies", body=wanted)

    def cancel_study(self, study_id: int) -> Study:
        return self._one(Study, "POST", f"/api/v1/studies/{study_id}/cancel")

    def trials(self, study_id: int) -> list[Trial]:
        return list(self.every(Trial, f"/api/v1/studies/{study_id}/trials"))

    def claim_study(self, worker: str) -> Study | None:
        answer = self._request("POST", "/api/v1/studies/claim", body=StudyClaim(worker=worker))
        return None if answer.status_code == 204 else Study.model_validate_json(answer.content)

    def heartbeat_study(self, study_id: int, beat: StudyHeartbeat) -> Study:
        """Extends the lease; raises Conflict when the study is no longer this worker's (cancelled, reclaimed)."""
        return self._one(Study, "POST", f"/api/v1/studies/{study_id}/heartbeat", body=beat)

    def report_trial(self, study_id: int, worker: str, trial: TrialReport) -> Trial:
        return self._one(Trial, "POST", f"/api/v1/studies/{study_id}/trials", body=trial, params={"worker": worker})

    def finish_study(self, study_id: int, outcome: StudyFinish) -> Study:
        """Ends the study with its result or its error."""
        return self._one(Study, "POST", f"/api/v1/studies/{study_id}/finish", body=outcome)

    # -- rollouts ------------------------------------------------------------------------------------------------

    def rollouts(self) -> list[Rollout]:
        """Newest first."""
        return list(self.every(Rollout, "/api/v1/rollouts"))

    def rollout(self, rollout_id: int) -> Rollout:
        return self._one(Rollout, "GET", f"/api/v1/rollouts/{rollout_id}")

    def create_rollout(self, wanted: RolloutCreate) -> Rollout:
        return self._one(Rollout, "POST", "/api/v1/rollouts", body=wanted)

    def start_rollout(self, rollout_id: int) -> Rollout:
        return self._one(Rollout, "POST", f"/api/v1/rollouts/{rollout_id}/start")

    def cancel_rollout(self, rollout_id: int) -> Rollout:
        """Before it began: cancelled. While it runs: rolled back."""
        return self._one(Rollout, "POST", f"/api/v1/rollouts/{rollout_id}/cancel")

    # -- ledger --------------------------------------------------------------------------------------------------

    def ledger(self, *, limit: int = 100, kind: str | None = None, subject: str | None = None) -> list[LedgerEntry]:
        """Newest first, at most `limit`."""
        return self._page(LedgerEntry, "/api/v1/ledger", limit=limit, kind=kind, subject=subject).items


def _query(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)
