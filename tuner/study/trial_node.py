"""The trial node: given a configuration through the control plane, and made ready for an equal start of every replay.

Guarantee: `apply` returns only when the EFFECTIVE configuration, read back from the engine, is the wanted one; before
a replay the engine is idle, its prefix cache empty (or the caller knows that it is not), and its code warm.
"""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from controlplane.client import Client
from controlplane.client.named_proxy import authorities
from controlplane.contract import engine_address
from controlplane.contract.bodies.change import LONGEST_CHANGE_S, needed_class, patience_s
from controlplane.contract.bodies.nodes import ConfigStatus, NodeRole, NodeView, TrialConfig
from controlplane.contract.bodies.workload import Workload, WorkloadRequest
from controlplane.contract.errors import NotFound, TailwrightError
from controlplane.contract.knobs import QUANTIZATION, ChangeClass, Quantization, difference
from tuner.replay.lost_cause import Bound
from tuner.replay.replay import ReplayResult, Stopped, run_replay
from tuner.search.charge import Prices
from tuner.search.space import Capabilities, Held
from tuner.workload.prompt import prompts
from tuner.workload.trace import workload_of

_POLL_S = 0.2
_AWAY_S, _AWAY_POLL_S = 60.0, 1.0
"""How long a control plane that does not answer is asked again, and how often."""
_RESET_POLL_S, _RESET_LIMIT_S = 0.05, 10.0
VLLM = "vllm"
_DRAFTS = re.compile(
    r"^[\w:]*spec_decode_num_(draft|accepted)_tokens(?:_total)?(?:\{[^}]*\})? +([0-9.eE+-]+)", re.MULTILINE
)
_GAUGE = re.compile(r"^[\w:]*(?:requests_running|requests_waiting)(?:\{[^}]*\})? +([0-9.eE+-]+)", re.MULTILINE)


log = logging.getLogger(__name__)


class ApplyFailed(TailwrightError):
    """The trial node did not come to run the wanted configuration."""

    status = 409
    code = "apply_failed"


def find_trial_nodes(nodes: Sequence[NodeView], pool: str) -> list[NodeView]:
    """Trial nodes for a study of `pool`: connected, healthy, of the same model; those of pool `POOL-trial` first.

    At least one. Raises NotFound, which says what is wrong with each trial node there is.
    """
    models = {node.model for node in nodes if node.pool == pool and node.role is NodeRole.SERVING and node.model}
    reasons: list[str] = []
    usable: list[NodeView] = []
    for node in nodes:
        if node.role is NodeRole.TRIAL:
            problem = _unusable(node, models)
            if problem:
                reasons.append(f"{node.node} {problem}")
            else:
                usable.append(node)
    if usable:
        preferred = {f"{pool}-trial": 0, pool: 1}
        return sorted(usable, key=lambda node: (preferred.get(node.pool, 2), node.node))
    told = "; ".join(reasons) or "there is no node with role trial"
    raise NotFound(
        f"no trial node for pool {pool}: {told}. Start an agent with role trial, pool {pool}-trial and the same model.",
        field="trial_node",
    )


def _unusable(node: NodeView, models: set[str]) -> str:
    if not node.connected:
        return "is not connected"
    if not node.healthy:
        return f"is not healthy ({node.health_detail or 'no detail'})"
    if not node.engine_url:
        return "has not told its engine's address"
    if models and node.model not in models:
        return f"runs model {node.model}, the pool {', '.join(sorted(models))}"
    return ""


def _checked(node: str, url: str, networks: Sequence[engine_address.Network]) -> str:
    """The URL to call. Raises ApplyFailed where the engine's name leads to what is no engine's address.

    Where networks are named, an engine by http is called by the address that was looked at: whoever owns the name may
    answer otherwise the next time (DNS rebinding). By https the certificate says whose the address is.
    """
    parsed = httpx.URL(url)
    try:
        found = [str(entry[4][0]) for entry in socket.getaddrinfo(parsed.host, None, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError) as error:
        if networks:
            raise ApplyFailed(f"trial node {node}: its engine {url}: {error}", field="trial_node") from error
        return url  # The first call says so, with its reason.
    for address in found:
        if problem := engine_address.problem_of_address(address, networks):
            raise ApplyFailed(f"trial node {node}: its engine {url}: {problem}", field="trial_node")
    return str(parsed.copy_with(host=found[0])) if networks and parsed.scheme == "http" else url


class TrialNode:
    """One node on loan. Every wait ends early with Stopped when `stop` is set. `change_s`: spent on changes so far."""

    def __init__(
        self,
        client: Client,
        node: NodeView,
        *,
        stop: threading.Event,
        networks: Sequence[engine_address.Network] = (),
    ) -> None:
        """`networks`: all that engines are in; empty: that is not said."""
        assert node.engine_url is not None
        self.name = node.node
        self.gives_token_ids = node.backend == VLLM
        self._resets = True
        self.change_s = 0.0
        self._view = node
        self._prices = Prices()
        self.url = _checked(node.node, node.engine_url.rstrip("/"), networks)
        self.model = node.model or ""
        self._client = client
        self.stop = stop
        self._engine = httpx.Client(base_url=self.url, timeout=10.0, verify=authorities(self.url), trust_env=False)

    def close(self) -> None:
        self._engine.close()

    # -- configuration -------------------------------------------------------------------------------------------

    def capabilities(self) -> Capabilities:
        """What the node's engine truly can, as its agent reports it; the least of an engine that says nothing."""
        effective = self._view.effective
        if effective is None:
            return Capabilities()
        runs = str(effective.knobs.get(QUANTIZATION, Quantization.NONE.value))
        return Capabilities(
            quantization=tuple(effective.formats) or (runs,),
            maximum=dict(effective.limits),
            minimum=dict(effective.live_floors),
            # vLLM refuses to start with fewer batched tokens than sequences.
            tokens_at_least_seqs=self._view.backend == VLLM,
            held=None if effective.memory is None else Held(effective.memory, effective.knobs),
            declared=effective.declared,
        )

    def max_total(self) -> int | None:
        """Most tokens of a prompt and its answer together, where the engine says: in `GET /v1/models`, as vLLM does."""
        try:
            listed = self._engine.get("/v1/models").raise_for_status().json()["data"]
            lengths = {str(one["id"]): one.get("max_model_len") for one in listed}
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return None
        found = lengths.get(self.model) or next(iter(lengths.values()), None)
        return found if isinstance(found, int) else None

    def charge(self, knobs: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> float:
        """Expected seconds of going to `knobs`, from `before` or else from what the node runs now."""
        effective = self._view.effective
        if effective is None:
            return 0.0
        return self._prices.between(self._view.backend, effective, effective.knobs if before is None else before, knobs)

    def apply(self, knobs: Mapping[str, Any]) -> None:
        """Set `knobs` and wait until they are in effect, as long as such a change may take. Raises ApplyFailed."""
        wanted, before = dict(knobs), self._view
        needed = None
        if before.effective is not None:
            needed = needed_class(before.backend, before.effective, wanted)
        began = time.monotonic()
        try:
            self._apply(wanted, needed)
        finally:
            took_s = time.monotonic() - began
            self.change_s += took_s
        self._prices.paid(needed, took_s)

    def _apply(self, wanted: dict[str, Any], needed: ChangeClass | None) -> None:
        config = TrialConfig(knobs=wanted)
        view = self._view = self._ask(lambda: self._client.set_trial_config(self.name, config))
        revision = view.desired_revision
        began = time.monotonic()
        while not _in_effect(view, wanted):
            if view.config_status is ConfigStatus.FAILED and view.desired_revision == revision:
                raise ApplyFailed(f"{self.name} refused the configuration: {view.config_error or 'no reason given'}")
            waited_s = time.monotonic() - began
            if waited_s > _patience_s(view, needed):
                raise ApplyFailed(
                    f"{self.name} does not run the wanted configuration after {waited_s:.0f} s"
                    f"{'' if view.connected else '; it is not connected'}: {_difference(view, wanted)}"
                )
            self._wait(_POLL_S)
            view = self._view = self._ask(lambda: self._client.node(self.name))

    def check_there(self, error: TailwrightError) -> None:
        """Raises Stopped where its agent is not connected any more: then `error` says nothing of what it ran."""
        try:
            is_there = self._ask(lambda: self._client.node(self.name)).connected
        except NotFound:
            is_there = False
        if not is_there:
            raise Stopped(f"trial node {self.name} is gone ({error.message}); its run waits for it, or for another")

    # -- an equal start ------------------------------------------------------------------------------------------

    def reset_cache(self) -> bool:
        """Have the agent empty the engine's prefix cache. False when the engine offers no way to, or it did not come to
        it: then every replay wants its own salt.
        """
        if not self._resets:
            return False
        view = self._ask(lambda: self._client.reset_cache(self.name))
        wanted, until = view.desired_cache_reset, time.monotonic() + _RESET_LIMIT_S
        while (done := _resets_of(view)) != wanted:
            if done is None:
                self._resets = False
                log.warning("%s: its engine offers no way to empty the prefix cache", self.name)
                return False
            if time.monotonic() > until:
                log.warning("%s: its prefix cache was not emptied within %g s", self.name, _RESET_LIMIT_S)
                return False
            self._wait(_RESET_POLL_S)
            view = self._ask(lambda: self._client.node(self.name))
        return True

    def drain(self, timeout_s: float = 10.0) -> bool:
        """Wait until the engine runs and holds nothing, as its `/metrics` say; False when it did not come to that."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            try:
                values = [float(value) for value in _GAUGE.findall(self._engine.get("/metrics").text)]
            except (httpx.HTTPError, ValueError):
                values = []
            if not values:
                self._wait(_POLL_S)
                return False
            if sum(values) == 0:
                return True
            self._wait(0.05)
        return False

    def drafts(self) -> tuple[int, int] | None:
        """Draft tokens that the engine has proposed and accepted, by its `/metrics`; None where it tells none."""
        found = {"draft": 0.0, "accepted": 0.0}
        try:
            told = _DRAFTS.findall(self._engine.get("/metrics").text)
            for name, value in told:
                found[name] += float(value)
        except (httpx.HTTPError, ValueError):
            return None
        return (round(found["draft"]), round(found["accepted"])) if told else None

    def warm_up(self, corpus: Sequence[int], *, salt: int) -> None:
        """A few requests of each kind, not measured: the first of a new configuration pay for what later ones find."""
        lengths = (24, 96, 200, 96)
        requests = [
            WorkloadRequest(timestamp=60.0 * index, input_length=length, output_length=6)
            for index, length in enumerate(lengths)
        ]
        warming = workload_of(requests)
        self.run(warming, prompts(warming, corpus, salt=salt), deadline_s=10.0)

    def run(
        self,
        workload: Workload,
        texts: Sequence[Sequence[int]],
        *,
        deadline_s: float,
        bounds: Sequence[Bound] = (),
        lead_in: int = 0,
    ) -> ReplayResult:
        """One replay against the node's engine, the first `lead_in` requests not measured; it ends early where one of
        `bounds` cannot be kept any more."""
        return run_replay(
            workload,
            texts,
            self.url,
            model=self.model,
            deadline_s=deadline_s,
            stop=self.stop,
            bounds=bounds,
            lead_in=lead_in,
        )

    def _ask(self, act: Callable[[], NodeView]) -> NodeView:
        """What the control plane answers. While it is away (started again, its database too) it is asked again, for
        `_AWAY_S`: what is asked here twice is done once."""
        until = time.monotonic() + _AWAY_S
        while True:
            try:
                return act()
            except (httpx.TransportError, TailwrightError) as error:
                lasting = isinstance(error, TailwrightError) and error.status < 500 and error.status != 429
                if lasting or time.monotonic() > until:
                    raise
                log.warning("%s: the control plane does not answer, asked again: %r", self.name, error)
            self._wait(_AWAY_POLL_S)

    def _wait(self, seconds: float) -> None:
        if self.stop.wait(seconds):
            raise Stopped("the study was stopped")


def _patience_s(view: NodeView, needed: ChangeClass | None) -> float:
    """A node that is applying, connected and well has turned out to need more than a live change: it gets the time."""
    working = view.config_status is ConfigStatus.APPLYING and view.connected and view.healthy
    if needed in (None, ChangeClass.LIVE) and working:
        return LONGEST_CHANGE_S
    return patience_s(view.effective, needed)


def _resets_of(view: NodeView) -> int | None:
    """How many emptyings of the cache are done; None: there is no way to."""
    return None if view.effective is None else view.effective.cache_reset


def _in_effect(view: NodeView, wanted: Mapping[str, Any]) -> bool:
    return view.effective is not None and not _difference(view, wanted)


def _difference(view: NodeView, wanted: Mapping[str, Any]) -> str:
    """Each knob that differs, as "name is A, not B"."""
    if view.effective is None:
        return "it has not reported what it runs"
    differing = difference(wanted, view.effective.knobs, unreported=True)
    return ", ".join(f"{name} is {has!r}, not {value!r}" for name, (value, has) in differing.items())
