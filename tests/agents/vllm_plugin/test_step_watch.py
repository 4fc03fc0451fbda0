"""Steps are watched without a mark on vLLM: counted once when computed, and given up at the first surprise."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tailwright_vllm import surprises
from tailwright_vllm.folder import VARIABLE
from tailwright_vllm.step_counts import StepGrowth
from tailwright_vllm.step_watch import StepWatch

from tests.agents.vllm_plugin.test_scheduler import Put, _made
from tests.agents.vllm_plugin.vllm_trees import Planned, Scheduler, config_of
from tests.conftest import wait_for


class Made(Scheduler):
    """Each step is what a function makes of the scheduler."""

    def __init__(self, step: Any, drafts: int = 0, **limits: Any) -> None:
        super().__init__(config_of(drafts, **limits))
        self.step = step

    def schedule(self, throttle_prefills: bool = False) -> Planned:
        return Planned(scheduled=self.step(self))


def _request(name: str, computed: int, tokens: int) -> SimpleNamespace:
    return SimpleNamespace(request_id=name, num_computed_tokens=computed, num_tokens=tokens)


def _limits(scheduler: Any, steps: int = 1, throttled: bool = False, drafts: Any = None) -> list[str]:
    counted: list[str] = []
    watch = StepWatch(scheduler, counted.append)
    for _ in range(steps):
        watch.before()
        output = scheduler.schedule()
        watch.listen_no_more()
        watch.planned(output, throttled)
        watch.computed(output, scheduler.update_from_output(output, drafts))
    return counted


def test_a_step_that_computed_nothing_is_not_counted() -> None:
    assert _limits(Made(lambda _: {}), steps=3) == []


def test_somebody_set_back_shows_by_those_who_wait() -> None:
    def set_back(scheduler: Any) -> dict[str, int]:
        scheduler.waiting.append(scheduler.running.pop())
        return {"a": 1}

    scheduler = Made(set_back)
    scheduler.running = [_request("a", 9, 9), _request("b", 9, 9)]
    assert _limits(scheduler) == ["kv_memory"]


@pytest.mark.parametrize(("free", "limit"), [(100, "token_budget"), (0, "kv_memory")])
def test_a_refused_allocation_is_heard_and_vllms_method_stays(free: int, limit: str) -> None:
    def start(scheduler: Any) -> dict[str, int]:
        scheduler.kv_cache_manager.allocate_slots("b", num_new_tokens=5)
        return {"a": 1}

    scheduler = Made(start)
    scheduler.kv_cache_manager.free = free
    scheduler.running, scheduler.waiting = [_request("a", 9, 9)], [_request("b", 0, 9)]
    assert _limits(scheduler) == [limit]
    assert "allocate_slots" not in vars(scheduler.kv_cache_manager)


@pytest.mark.parametrize("asks", [0, 1])
def test_nobody_listens_while_nobody_could_start(asks: int) -> None:
    heard = []

    def look(scheduler: Any) -> dict[str, int]:
        heard.append("allocate_slots" in vars(scheduler.kv_cache_manager))
        return {"a": 1}

    scheduler = Made(look, max_num_seqs=1)
    scheduler.running, scheduler.waiting = [_request("a", 9, 9)], [_request("b", 0, 9)] * asks
    assert _limits(scheduler) == ["max_num_seqs" if asks else "no_work"] and heard == [False]


def test_the_budget_is_spent_by_tokens_or_by_the_drafters_slots() -> None:
    def prefill(_: Any) -> dict[str, int]:
        return {"a": 1000}

    scheduler = Made(prefill)
    scheduler.running = [_request("a", 1000, 2000)]
    assert _limits(scheduler) == ["no_work"]
    scheduler.max_num_scheduled_tokens = 1000
    assert _limits(scheduler) == ["token_budget"]
    scheduler.max_num_scheduled_tokens = 1024
    scheduler.vllm_config.speculative_config = SimpleNamespace(max_num_new_slots_for_drafting=12)
    assert _limits(scheduler) == ["token_budget"]


def test_a_prompt_cut_to_the_chunk() -> None:
    scheduler = Made(lambda _: {"a": 64}, long_prefill_token_threshold=64)
    scheduler.running = [_request("a", 64, 200)]
    assert _limits(scheduler) == ["chunk"]
    scheduler.running = [_request("a", 64, 64)]
    assert _limits(scheduler) == ["no_work"]


def test_who_is_deferred_waits_for_no_limit() -> None:
    scheduler = Made(lambda _: {"a": 1})
    scheduler.running, scheduler.waiting = [_request("a", 9, 9)], [object()]
    scheduler.deferred_waiting = set(scheduler.waiting)
    assert _limits(scheduler) == ["no_work"]


def test_what_vllm_holds_back_is_not_told() -> None:
    scheduler: Any = Made(lambda _: {"a": 1})
    scheduler.running, scheduler.waiting = [_request("a", 9, 9)], [_request("b", 0, 9)]
    assert _limits(scheduler, throttled=True) == []
    scheduler._pause_state = 1
    assert _limits(scheduler) == []


def test_drafts_are_those_of_the_step_itself() -> None:
    drafts = SimpleNamespace(num_draft_tokens=8, num_accepted_tokens=3)
    scheduler = Made(lambda _: {"a": 9})
    assert _limits(scheduler, drafts=SimpleNamespace(spec_decoding_stats=drafts)) == ["drafts"]
    drafts.num_accepted_tokens = 8
    assert _limits(scheduler, drafts=SimpleNamespace(spec_decoding_stats=drafts)) == ["no_work"]
    assert _limits(scheduler, drafts=SimpleNamespace(spec_decoding_stats=None)) == ["no_work"]


def test_steps_under_way_are_counted_in_their_turn_and_those_never_computed_not_at_all() -> None:
    counted: list[str] = []
    scheduler = Made(lambda _: {"a": 1}, max_num_seqs=1)
    scheduler.running = [_request("a", 9, 9)]
    watch = StepWatch(scheduler, counted.append)
    outputs = []
    for waiting in (0, 1, 0):
        scheduler.waiting = [_request("b", 0, 9)] * waiting
        watch.before()
        outputs.append(scheduler.schedule())
        watch.planned(outputs[-1], False)
    watch.computed(outputs[1], {})
    assert counted == ["max_num_seqs"]
    watch.computed(outputs[0], {})
    watch.computed(outputs[2], {})
    assert counted == ["max_num_seqs", "no_work"]


def test_a_vllm_of_before_is_read_by_its_own_names() -> None:
    scheduler: Any = Made(lambda _: {"a": 1}, max_num_seqs=1)
    del scheduler.max_num_active_reqs, scheduler.deferred_waiting
    scheduler.running, scheduler.waiting = [_request("a", 9, 9)], [_request("b", 0, 9)]
    assert _limits(scheduler) == ["max_num_seqs"]
    scheduler.max_num_running_reqs = 2
    assert _limits(scheduler) == [], "it may wait for a grammar"
    scheduler.skipped_waiting = scheduler.waiting
    assert _limits(scheduler) == ["no_work"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def _step(scheduler: Any) -> None:
    scheduler.update_from_output(scheduler.schedule(), None)


def test_the_schedulers_steps_reach_the_folder(vllm: Put, folder: Path) -> None:
    class One(Scheduler):
        def schedule(self, throttle_prefills: bool = False) -> Planned:
            return Planned(scheduled={"a": 1})

    vllm(Scheduler=One)
    growth, told = StepGrowth(folder), dict[str, int]()
    scheduler = _made()
    for _ in range(3):
        _step(scheduler)

    def all_told() -> bool:
        for by_limit in growth.take().values():
            for limit, steps in by_limit.items():
                told[limit] = told.get(limit, 0) + steps
        return bool(told)

    wait_for("the steps are told", all_told)
    wait_for("all of them", lambda: all_told() and told == {"no_work": 3})


class NoManager(Scheduler):
    def __init__(self, vllm_config: Any, **values: Any) -> None:
        super().__init__(vllm_config)
        del self.kv_cache_manager


class NoCounts(Scheduler):
    seen = 0

    def get_request_counts(self) -> tuple[int, int]:
        self.seen += 1
        if self.seen > 1:
            raise RuntimeError("not any more")
        return 0, 0


class OtherOutput(Scheduler):
    def schedule(self, throttle_prefills: bool = False) -> Any:
        return SimpleNamespace(tokens=3)


class OtherAnswers(Scheduler):
    def schedule(self, throttle_prefills: bool = False) -> Planned:
        return Planned(scheduled={"a": 1})

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        return [model_runner_output]


@pytest.mark.parametrize("kind", [NoManager, NoCounts, OtherOutput, OtherAnswers])
def test_another_shape_ends_the_watching_and_nothing_else(
    vllm: Put, folder: Path, caplog: pytest.LogCaptureFixture, kind: type
) -> None:
    vllm(Scheduler=kind)
    scheduler = _made()
    for _ in range(3):
        _step(scheduler)
    assert scheduler._limits is not None and scheduler._steps is None
    assert surprises.surprises.counts == {"steps": 1}
    assert len([line for line in caplog.messages if "what binds each step is not told" in line]) == 1


def test_a_step_that_raises_leaves_vllms_method(vllm: Put, folder: Path) -> None:
    class Failing(Scheduler):
        def schedule(self, throttle_prefills: bool = False) -> Any:
            raise AssertionError("vLLM's own")

    vllm(Scheduler=Failing)
    scheduler = _made()
    scheduler.waiting = [_request("b", 0, 9)]
    with pytest.raises(AssertionError, match="own"):
        scheduler.schedule()
    assert "allocate_slots" not in vars(scheduler.kv_cache_manager)
