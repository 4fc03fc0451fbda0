"""A configuration on a lease, through cut-offs, kills of the agent, restarts of engine and machine, in any order."""

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.agent.control import configuration_file
from agents.agent.control.applier import RETRY_S, Applier
from agents.backends.base import EngineUnreachable
from agents.host.boot_clock import BootTime
from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig
from controlplane.contract.errors import Conflict, TailwrightError
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.reports.opamp import LEASE_ENDED
from tests.agents.instant_engine import InstantEngine

LEASE_S = 60.0
PROMOTED, CANARY = 3, 7


class Engine(InstantEngine):
    """`errors` are raised first, one a try."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[TailwrightError] = []
        self.applied: list[int] = []

    async def apply(self, config: EngineConfig, revision: int) -> EffectiveConfig:
        if self.errors:
            raise self.errors.pop(0)
        self.applied.append(revision)
        return await super().apply(config, revision)


class Node:
    """An engine, a machine with its clock, and an agent process that may be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.engine = Engine()
        self.now = BootTime("boot-0", 500.0)
        self.boots = 0
        self.applier: Applier

    async def start(self) -> None:
        self.applier = Applier(self.engine, self.folder, lambda _: None, clock=lambda: self.now, look_s=0.0)  # type: ignore[arg-type]
        self._task = asyncio.create_task(self.applier.run())
        self.applier.engine_seen(f"engine of {self.now.boot}")
        await self.settle()

    async def kill(self) -> None:
        """As by kill -9: what is not on the disk is gone."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def passes(self, seconds: float) -> None:
        self.now = BootTime(self.now.boot, self.now.at_s + seconds)
        await self.settle()

    async def reboot(self) -> None:
        await self.kill()
        self.boots += 1
        self.now = BootTime(f"boot-{self.boots}", 5.0)
        self.engine.restart()
        await self.start()

    async def offered(self, revision: int, over: int | None = None) -> None:
        """By a service that is heard then."""
        self.applier.heard()
        self.applier.offer(*offer(revision, over))
        await self.settle()

    async def settle(self) -> None:
        for _ in range(60):
            await asyncio.sleep(0)


def offer(revision: int, over: int | None = None, duration_s: float = LEASE_S) -> tuple[bytes, bytes]:
    """The hash and the body; `over`: on a lease over this one."""

    def said(number: int) -> dict[str, object]:
        return {"revision": number, "hash": f"h{number}", "knobs": EngineConfig(max_num_seqs=number).knobs()}

    lease = {} if over is None else {"lease": {"duration_s": duration_s, "promoted": said(over)}}
    return f"{revision}:h{revision}:{over}".encode(), json.dumps(said(revision) | lease).encode()


def on_node(script: Callable[[Node], Awaitable[None]]) -> None:
    async def run(folder: Path) -> None:
        node = Node(folder)
        await node.start()
        await script(node)
        await node.kill()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


async def with_canary(node: Node) -> None:
    await node.offered(PROMOTED)
    await node.offered(CANARY, over=PROMOTED)
    assert node.engine.current.revision == CANARY


def test_a_node_that_is_cut_off_goes_back_once_the_lease_is_over_and_says_so() -> None:
    async def script(node: Node) -> None:
        await with_canary(node)
        await node.passes(LEASE_S - 1)
        assert node.engine.current.revision == CANARY
        await node.passes(1)
        assert node.engine.current.revision == PROMOTED
        assert node.engine.current.knobs["max_num_seqs"] == PROMOTED
        outcome = node.applier.outcome
        assert (outcome.offer_hash, outcome.status) == (offer(CANARY, PROMOTED)[0], ConfigStatus.FAILED)
        assert outcome.error == f"{LEASE_ENDED}the control plane was not heard for 60 s, back to revision 3"
        await node.kill()
        await node.start()
        assert node.applier.outcome == outcome, "told on reconnect, whatever happens until then"
        applied = list(node.engine.applied)
        await node.passes(10 * LEASE_S)
        assert node.engine.applied == applied, "once"

    on_node(script)


def test_one_that_hears_the_control_plane_keeps_it() -> None:
    async def script(node: Node) -> None:
        await with_canary(node)
        for _ in range(20):
            await node.passes(LEASE_S / 2)
            node.applier.heard()
        assert node.engine.current.revision == CANARY
        await node.passes(LEASE_S - 1)
        await node.kill()
        await node.start()
        assert node.engine.current.revision == CANARY, "a killed agent knows when it was last heard"

    on_node(script)


def test_what_is_promoted_is_kept_for_ever_without_a_control_plane() -> None:
    async def script(node: Node) -> None:
        await with_canary(node)
        await node.offered(CANARY)
        await node.passes(100 * LEASE_S)
        await node.reboot()
        assert node.engine.current.revision == CANARY
        assert configuration_file.read(node.folder / "configuration.json").lease is None

    on_node(script)


def test_the_lease_is_on_the_disk_before_the_engine_is_touched() -> None:
    async def script(node: Node) -> None:
        kept = []
        apply = node.engine.apply

        async def watched(config: EngineConfig, revision: int) -> EffectiveConfig:
            kept.append((revision, configuration_file.read(node.folder / "configuration.json").lease is not None))
            return await apply(config, revision)

        node.engine.apply = watched  # type: ignore[method-assign]
        await with_canary(node)
        await node.passes(LEASE_S)
        assert kept == [(PROMOTED, False), (CANARY, True), (PROMOTED, True)]

    on_node(script)


def test_a_lease_that_cannot_be_written_down_is_not_taken() -> None:
    async def script(node: Node) -> None:
        await node.offered(PROMOTED)
        node.applier._file = node.folder / "gone" / "configuration.json"
        await node.offered(CANARY, over=PROMOTED)
        assert node.engine.current.revision == PROMOTED
        assert node.applier.outcome.status is ConfigStatus.FAILED
        assert "its lease cannot be written to" in node.applier.outcome.error

    on_node(script)


def test_an_engine_that_refuses_the_canary_runs_on_as_before() -> None:
    async def script(node: Node) -> None:
        await node.offered(PROMOTED)
        node.engine.errors = [Conflict("too big")]
        await node.offered(CANARY, over=PROMOTED)
        assert node.applier.outcome.error == "too big"
        await node.passes(LEASE_S)
        assert node.engine.applied == [PROMOTED]
        assert node.applier.outcome.error == "too big"

    on_node(script)


def test_the_way_back_is_tried_until_the_engine_takes_it() -> None:
    async def script(node: Node) -> None:
        await with_canary(node)
        node.engine.errors = [EngineUnreachable("starting")]
        await node.passes(LEASE_S)
        async with asyncio.timeout(60):
            while node.engine.current.revision != PROMOTED:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    on_node(script)


def test_one_that_the_engine_refuses_is_tried_again_later_and_gives_way_to_an_offer() -> None:
    async def script(node: Node) -> None:
        await with_canary(node)
        node.engine.errors = [Conflict("not now")]
        await node.passes(LEASE_S)
        assert node.engine.current.revision == CANARY
        assert node.applier._patience_s() == RETRY_S
        await node.offered(PROMOTED)
        assert node.engine.current.revision == PROMOTED and node.applier.outcome.status is ConfigStatus.APPLIED

    on_node(script)


@pytest.mark.parametrize("lease", [3, {}, {"duration_s": 60}, {"duration_s": 0, "promoted": {}}, {"duration_s": "inf"}])
def test_a_lease_without_a_way_back_is_refused(lease: object) -> None:
    async def script(node: Node) -> None:
        await node.offered(PROMOTED)
        body = json.loads(offer(CANARY)[1]) | {"lease": lease}
        node.applier.offer(b"canary", json.dumps(body).encode())
        await node.settle()
        assert node.engine.current.revision == PROMOTED
        assert node.applier.outcome.status is ConfigStatus.FAILED and "lease" in node.applier.outcome.error

    on_node(script)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("passes"), st.integers(1, 70)),
        st.tuples(st.sampled_from(["heard", "canary", "promoted", "kill", "engine_restart", "reboot"]), st.just(0)),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_whatever_happens_an_unjudged_configuration_ends_with_its_lease(steps: list[tuple[str, int]]) -> None:
    """The model knows the silence alone. A kill may cost a lease a tenth of itself, never lengthen it."""

    async def script(node: Node) -> None:
        await node.offered(PROMOTED)
        leased, silent_s, killed, over = False, 0.0, False, False
        for place, (kind, seconds) in enumerate(steps):
            if kind == "passes":
                silent_s += seconds
                await node.passes(seconds)
            elif kind == "heard":
                silent_s = 0.0
                node.applier.heard()
            elif kind in ("canary", "promoted"):
                await node.offered(*((CANARY, PROMOTED) if kind == "canary" else (PROMOTED,)))
                # What a node has left is not taken again until something else was offered.
                over = over and kind == "canary"
                leased, silent_s, killed = kind == "canary" and not over, 0.0, False
            elif kind == "reboot":
                over = over or leased
                leased = False
                await node.reboot()
            else:
                if kind == "engine_restart":
                    node.engine.current = EffectiveConfig(revision=0, knobs=EngineConfig().knobs())
                    node.applier.engine_seen(f"engine of step {place}")
                await node.settle()
                if kind == "kill":
                    killed = True
                    await node.kill()
                    await node.start()
            if leased and killed and node.engine.current.revision == PROMOTED:
                assert silent_s >= 0.9 * LEASE_S
                leased, over = False, True
            if leased and silent_s >= LEASE_S:
                leased, over = False, True
            assert node.engine.current.revision == (CANARY if leased else PROMOTED)

    on_node(script)
