"""The applier: one change at a time, the newest wins, a failure changes nothing, a restart is healed."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.agent.control import configuration_file
from agents.agent.control.applier import Applier
from agents.backends.base import EngineHealth, EngineUnreachable, Lost
from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig
from controlplane.contract.errors import Conflict, TailwrightError
from controlplane.contract.knobs import EngineConfig


class SlowBackend:
    """Applies in `pause` steps of the loop; `errors` are raised first, one per try."""

    name = "slow"

    def __init__(self) -> None:
        self.running = 0
        self.most_running = 0
        self.applied: list[int] = []
        self.errors: list[TailwrightError] = []
        self.current = EffectiveConfig(revision=0, knobs=EngineConfig().knobs())
        self.gate = asyncio.Event()
        self.gate.set()
        self.resets = 0
        self.can_reset = True

    async def reset_cache(self) -> bool:
        self.resets += 1
        return self.can_reset

    async def apply(self, config: EngineConfig, revision: int) -> EffectiveConfig:
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        try:
            await self.gate.wait()
            if self.errors:
                raise self.errors.pop(0)
            self.current = EffectiveConfig(revision=revision, knobs=config.knobs())
            self.applied.append(revision)
            return self.current
        finally:
            self.running -= 1

    async def effective(self) -> EffectiveConfig:
        return self.current

    async def lost(self) -> Lost | None:
        return None

    async def health(self) -> EngineHealth:
        return EngineHealth(True)


def body(revision: int, **knobs: object) -> bytes:
    return json.dumps({"revision": revision, "hash": "h", "knobs": {**EngineConfig().knobs(), **knobs}}).encode()


def drive(tmp_path: Path, script: Callable) -> tuple[Applier, SlowBackend]:
    async def run() -> tuple[Applier, SlowBackend]:
        backend = SlowBackend()
        applier = Applier(backend, tmp_path, lambda _: None)
        task = asyncio.create_task(applier.run())
        await script(applier, backend)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return applier, backend

    return asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def turns() -> None:
    """Whoever has anything to do has done it: nothing here waits for more than the loop."""
    for _ in range(50):
        await asyncio.sleep(0)


def test_the_newest_wish_replaces_those_that_have_not_begun(tmp_path: Path) -> None:
    async def script(applier: Applier, backend: SlowBackend) -> None:
        backend.gate.clear()
        applier.offer(b"1", body(1))
        await until(lambda: backend.running == 1)
        for revision in (2, 3, 4):
            applier.offer(str(revision).encode(), body(revision))
        assert applier.outcome.status is ConfigStatus.APPLYING
        backend.gate.set()
        await until(lambda: applier.outcome.status is ConfigStatus.APPLIED)

    applier, backend = drive(tmp_path, script)
    assert backend.applied == [1, 4]
    assert backend.most_running == 1
    assert applier.outcome.offer_hash == b"4"


def test_a_failure_is_reported_and_the_last_good_one_is_kept(tmp_path: Path) -> None:
    async def script(applier: Applier, backend: SlowBackend) -> None:
        applier.offer(b"1", body(1))
        await until(lambda: backend.applied == [1])
        backend.errors = [Conflict("too big")]
        applier.offer(b"2", body(2))
        await until(lambda: applier.outcome.status is ConfigStatus.FAILED)

    applier, backend = drive(tmp_path, script)
    assert applier.outcome.error == "too big"
    assert applier.good is not None and applier.good.revision == 1
    assert backend.current.revision == 1


def with_resets(revision: int, resets: int) -> bytes:
    return json.dumps({**json.loads(body(revision)), "cache_reset": resets}).encode()


def test_the_cache_is_emptied_once_for_each_time_it_is_asked_for(tmp_path: Path) -> None:
    async def script(applier: Applier, backend: SlowBackend) -> None:
        for offer, (revision, resets) in enumerate([(1, 0), (1, 1), (2, 1), (2, 3)]):
            applier.offer(b"%d" % offer, with_resets(revision, resets))
            await until(lambda offer=offer: applier.outcome.offer_hash == b"%d" % offer)  # type: ignore[misc]
            await until(lambda: applier.outcome.status is ConfigStatus.APPLIED)
            assert applier.cache_reset == resets

    _, backend = drive(tmp_path, script)
    assert (backend.resets, backend.applied) == (2, [1, 2]), "an equal configuration is not put in force again"
    again, _ = drive(tmp_path, lambda applier, backend: asyncio.sleep(0))
    assert again.cache_reset == 3, "another process of the agent knows what was done"


def test_an_engine_that_offers_no_way_to_empty_its_cache_is_told_of_as_such(tmp_path: Path) -> None:
    async def script(applier: Applier, backend: SlowBackend) -> None:
        backend.can_reset = False
        applier.offer(b"1", with_resets(1, 1))
        await until(lambda: applier.outcome.status is ConfigStatus.APPLIED)

    applier, backend = drive(tmp_path, script)
    assert applier.cache_reset is None and backend.current.revision == 1


def test_an_engine_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    async def script(applier: Applier, backend: SlowBackend) -> None:
        backend.errors = [EngineUnreachable("starting")] * 2
        applier.offer(b"1", body(1))
        await until(lambda: len(backend.errors) == 1)
        assert applier.outcome.status is ConfigStatus.APPLYING
        await until(lambda: applier.outcome.status is ConfigStatus.APPLIED)

    drive(tmp_path, script)


def test_a_restarted_engine_gets_the_last_good_configuration_from_disk(tmp_path: Path) -> None:
    async def first(applier: Applier, backend: SlowBackend) -> None:
        applier.engine_seen("boot-1")
        applier.offer(b"7", body(7, max_num_seqs=3))
        await until(lambda: applier.outcome.status is ConfigStatus.APPLIED)

    async def second(applier: Applier, backend: SlowBackend) -> None:
        assert applier.outcome.offer_hash == b"7"
        applier.engine_seen("boot-2")
        await until(lambda: backend.applied == [7])

    drive(tmp_path, first)
    _, backend = drive(tmp_path, second)
    assert backend.current.knobs["max_num_seqs"] == 3


def test_a_restarted_agent_leaves_a_running_engine_alone(tmp_path: Path) -> None:
    async def first(applier: Applier, backend: SlowBackend) -> None:
        applier.engine_seen("boot-1")
        applier.offer(b"7", body(7))
        await until(lambda: applier.outcome.status is ConfigStatus.APPLIED)

    async def second(applier: Applier, backend: SlowBackend) -> None:
        applier.engine_seen("boot-1")
        applier.offer(b"7", body(7))
        await turns()
        assert backend.applied == []

    drive(tmp_path, first)
    drive(tmp_path, second)


def test_an_offer_that_cannot_be_read_fails_by_name(tmp_path: Path) -> None:
    async def script(applier: Applier, backend: SlowBackend) -> None:
        for offer_hash, content, said in (
            (b"a", b"{", "not readable"),
            (b"b", b"[]", "not readable"),
            (b"c", b'{"revision": true, "knobs": {}}', "revision"),
            (b"d", body(1, **{"max seqs": 3}), "knobs.max seqs: no such knob"),
            (b"e", body(1, max_num_seqs=0), "knobs.max_num_seqs"),
        ):
            applier.offer(offer_hash, content)
            assert applier.outcome.status is ConfigStatus.FAILED
            assert applier.outcome.offer_hash == offer_hash
            assert said in applier.outcome.error
        await turns()
        assert backend.applied == []

    drive(tmp_path, script)


def test_a_change_is_written_to_the_disk_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []
    write = configuration_file.write

    def counted(file: Path, kept: configuration_file.Kept) -> None:
        written.append(file)
        write(file, kept)

    monkeypatch.setattr(configuration_file, "write", counted)

    async def script(applier: Applier, backend: SlowBackend) -> None:
        for revision in (1, 2):
            applier.offer(b"%d" % revision, body(revision))
            await until(lambda: applier.outcome.status is ConfigStatus.APPLIED)
            await turns()
            assert len(written) == revision and configuration_file.read(written[-1]).good == applier.good

    drive(tmp_path, script)


def test_a_damaged_file_is_survived(tmp_path: Path) -> None:
    (tmp_path / "configuration.json").write_text('{"boot": 3')

    async def script(applier: Applier, backend: SlowBackend) -> None:
        assert applier.good is None

    drive(tmp_path, script)


def test_a_restarted_engine_that_runs_it_already_is_left_alone_and_known_from_then_on(tmp_path: Path) -> None:
    def boot() -> str:
        return str(json.loads((tmp_path / "configuration.json").read_text())["boot"])

    async def first(applier: Applier, backend: SlowBackend) -> None:
        applier.offer(b"7", body(7))
        await until(lambda: applier.outcome.status is ConfigStatus.APPLIED)
        applier.engine_seen("boot-2")
        await until(lambda: boot() == "boot-2")
        assert backend.applied == [7]

    async def second(applier: Applier, backend: SlowBackend) -> None:
        applier.engine_seen("boot-2")  # It runs something else by now: by a person's hand.
        await turns()
        assert backend.applied == []

    drive(tmp_path, first)
    drive(tmp_path, second)


def test_a_restart_is_seen_to_once_and_what_a_person_changes_later_is_left_alone(tmp_path: Path) -> None:
    async def script(applier: Applier, backend: SlowBackend) -> None:
        applier.offer(b"7", body(7))
        await until(lambda: applier.outcome.status is ConfigStatus.APPLIED)
        applier.engine_seen("boot-2")  # It runs it already.
        await turns()
        backend.current = EffectiveConfig(revision=7, knobs=EngineConfig(max_num_seqs=1).knobs())
        applier.offer(b"8", body(8))
        applier.offer(b"9", b"cannot be read, and replaces what was to come")
        await turns()
        assert backend.applied == [7]

    drive(tmp_path, script)


def test_a_restarted_engine_is_given_it_again_when_it_runs_another_or_does_not_say(tmp_path: Path) -> None:
    async def script(applier: Applier, backend: SlowBackend) -> None:
        applier.offer(b"7", body(7))
        await until(lambda: backend.applied == [7])
        backend.current = EffectiveConfig(revision=7, knobs=EngineConfig(max_num_seqs=1).knobs())
        applier.engine_seen("boot-2")
        await until(lambda: backend.applied == [7, 7])
        backend.current = EffectiveConfig(revision=6, knobs=EngineConfig().knobs())
        applier.engine_seen("boot-3")
        await until(lambda: backend.applied == [7, 7, 7])

        async def mute() -> EffectiveConfig:
            raise EngineUnreachable("starting")

        backend.effective = mute  # type: ignore[method-assign]
        applier.engine_seen("boot-4")
        await until(lambda: backend.applied == [7, 7, 7, 7])

    drive(tmp_path, script)


def test_a_wish_that_an_unreadable_one_replaced_leaves_the_engine_as_it_is(tmp_path: Path) -> None:
    async def script(applier: Applier, backend: SlowBackend) -> None:
        applier.engine_seen("boot-1")
        applier.offer(b"7", body(7))
        await until(lambda: applier.outcome.status is ConfigStatus.APPLIED)
        backend.current = EffectiveConfig(revision=0, knobs=EngineConfig(max_num_seqs=1).knobs())
        applier.offer(b"8", body(8))
        applier.offer(b"9", b"{")
        await turns()
        assert backend.applied == [7]
        assert (applier.outcome.offer_hash, applier.outcome.status) == (b"9", ConfigStatus.FAILED)

    drive(tmp_path, script)
