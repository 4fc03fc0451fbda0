"""What to send, decided purely: properties over any desired and effective configuration."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig, NodeRole
from controlplane.contract.knobs import KNOBS, EngineConfig, config_hash
from controlplane.fleet import machine
from controlplane.fleet.machine import Acknowledged, Wish

CONFIGS = st.builds(
    EngineConfig,
    max_num_batched_tokens=st.sampled_from([256, 512]),
    prefill_chunk_size=st.sampled_from([0, 64]),
    max_num_seqs=st.integers(1, 3),
    num_speculative_tokens=st.sampled_from([0, 2, ((4, 3), (8, 1))]),
    quantization=st.sampled_from(["none", "int8"]),
)
NUMBERS = st.integers(1, 5)


def revision(number: int, config: EngineConfig) -> Revision:
    made_at = datetime(2026, 1, 1, tzinfo=UTC)
    return Revision(number=number, hash=config_hash(config), knobs=config, created_by="test", created_at=made_at)


REVISIONS = st.builds(revision, NUMBERS, CONFIGS)


@st.composite
def effective_configs(draw: st.DrawFn) -> EffectiveConfig:
    """What an engine may report: some of the knobs, maybe others too."""
    knobs = draw(CONFIGS).knobs()
    reported = {name: knobs[name] for name in draw(st.sets(st.sampled_from(sorted(KNOBS))))}
    reported |= draw(st.dictionaries(st.just("of_the_engine"), st.integers()))
    return EffectiveConfig(revision=draw(st.integers(0, 5)), knobs=reported)


@given(st.none() | NUMBERS, st.none() | NUMBERS)
def test_an_override_beats_the_pool(override: int | None, pool: int | None) -> None:
    assert machine.wanted_revision(override, pool) == (pool if override is None else override)


@given(REVISIONS, effective_configs())
def test_drift_is_a_reported_knob_with_another_value(desired: Revision, effective: EffectiveConfig) -> None:
    differing = machine.differing_knobs(desired.knobs.knobs(), effective.knobs)
    assert set(differing) <= set(effective.knobs) & set(KNOBS)
    assert machine.drifts(Wish(desired), effective) == bool(differing)
    agreed = {**effective.knobs, **{name: desired.knobs.knobs()[name] for name in differing}}
    assert not machine.drifts(Wish(desired), effective.model_copy(update={"knobs": agreed}))


@given(effective_configs())
def test_nothing_desired_is_no_drift_and_sends_nothing(effective: EffectiveConfig) -> None:
    assert not machine.drifts(None, effective)
    assert not machine.must_offer(None, Acknowledged("1:x", ConfigStatus.APPLIED), effective)


@given(REVISIONS, st.sampled_from(ConfigStatus), st.none() | effective_configs())
def test_what_is_acknowledged_is_not_sent_again(
    desired: Revision, status: ConfigStatus, effective: EffectiveConfig | None
) -> None:
    said = Acknowledged(Wish(desired).hash, status, "why")
    assert not machine.must_offer(Wish(desired), said, effective)
    assert machine.shown_status(desired, said, offering=False) == (status, "why")


@given(REVISIONS, REVISIONS, effective_configs())
def test_whatever_else_was_acknowledged_the_desired_one_is_sent(
    desired: Revision, before: Revision, effective: EffectiveConfig
) -> None:
    said = Acknowledged(Wish(before).hash, ConfigStatus.FAILED, "why")
    offering = machine.must_offer(Wish(desired), said, effective)
    assert offering == (Wish(before).hash != Wish(desired).hash)
    # The status of a revision before it is never shown as that of the desired one.
    if offering:
        assert machine.shown_status(desired, said, offering) == (ConfigStatus.APPLYING, "")


@given(NUMBERS, CONFIGS)
def test_an_engine_that_runs_it_already_is_left_alone(number: int, config: EngineConfig) -> None:
    desired = revision(number, config)
    same = EffectiveConfig(revision=number, knobs=config.knobs())
    assert not machine.must_offer(Wish(desired), Acknowledged(), same)
    for other in (0, number + 1):
        assert machine.must_offer(Wish(desired), Acknowledged(), EffectiveConfig(revision=other, knobs=config.knobs()))
    assert machine.must_offer(Wish(desired), Acknowledged(), None)


@given(NUMBERS, CONFIGS, st.integers(1, 9))
def test_an_emptying_of_the_cache_is_a_wish_of_its_own(number: int, config: EngineConfig, resets: int) -> None:
    desired = revision(number, config)
    before, wish = Wish(desired, resets - 1), Wish(desired, resets)
    runs = EffectiveConfig(revision=number, knobs=config.knobs())
    assert machine.must_offer(wish, Acknowledged(), runs)
    assert machine.must_offer(wish, Acknowledged(before.hash, ConfigStatus.APPLIED), runs)
    assert not machine.must_offer(wish, Acknowledged(wish.hash, ConfigStatus.APPLIED), runs)
    assert before.mark != wish.mark
    assert machine.revision_part(wish.hash) == Wish(desired).hash


@given(CONFIGS)
def test_a_schedule_read_back_as_lists_is_equal(config: EngineConfig) -> None:
    assert not machine.drifts(Wish(revision(1, config)), EffectiveConfig(revision=0, knobs=config.knobs()))


@pytest.mark.parametrize(
    ("role", "pool", "knobs", "wanted"),
    [
        (NodeRole.SERVING, None, {"max_num_seqs": 1}, True),
        (NodeRole.TRIAL, None, {"max_num_seqs": 1}, False),
        (NodeRole.SERVING, 3, {"max_num_seqs": 1}, False),
        (NodeRole.SERVING, None, {"of_the_engine": 1}, False),
        (NodeRole.SERVING, None, None, False),
    ],
)
def test_only_a_first_serving_node_is_adopted(
    role: NodeRole, pool: int | None, knobs: dict[str, Any] | None, wanted: bool
) -> None:
    effective = None if knobs is None else EffectiveConfig(revision=0, knobs=knobs)
    assert machine.adoptable(role, pool, effective) is wanted


def test_sequence_numbers_grow_by_one_within_one_process() -> None:
    assert machine.in_sequence("a", 4, "a", 5)
    assert not machine.in_sequence("a", 4, "a", 6)
    assert not machine.in_sequence("a", 4, "a", 4)
    assert not machine.in_sequence("a", 4, "b", 5)
    assert not machine.in_sequence(None, 0, "a", 1)


def test_what_an_agent_is_sent_names_the_revision_and_all_its_knobs() -> None:
    made = revision(3, EngineConfig(max_num_seqs=2))
    assert json.loads(machine.remote_body(Wish(made), 60.0)) == {
        "revision": 3,
        "hash": made.hash,
        "knobs": made.knobs.knobs(),
    }


@given(REVISIONS, REVISIONS, st.integers(0, 2))
def test_a_leased_revision_says_for_how_long_and_what_comes_after_and_else_the_same(
    trial: Revision, promoted: Revision, resets: int
) -> None:
    leased, plain = Wish(trial, resets, promoted), Wish(trial, resets)
    said = json.loads(machine.remote_body(leased, 60.0))
    lease = said.pop("lease")
    assert said == json.loads(machine.remote_body(plain, 60.0)), "what agents that know no leases read"
    assert lease == {"duration_s": 60.0, "promoted": json.loads(machine.remote_body(Wish(promoted), 60.0))}
    assert json.loads(machine.remote_body(leased, 30.0))["lease"]["duration_s"] == 30.0
    assert machine.revision_part(leased.hash) == Wish(trial).hash


@given(REVISIONS, REVISIONS, st.sampled_from(ConfigStatus))
def test_a_promotion_is_offered_to_the_nodes_that_run_it_on_a_lease(
    trial: Revision, promoted: Revision, status: ConfigStatus
) -> None:
    leased, plain = Wish(trial, promoted=promoted), Wish(trial)
    said = Acknowledged(leased.hash, status, "")
    runs = EffectiveConfig(revision=trial.number, knobs=trial.knobs.knobs())
    assert leased.mark != plain.mark
    assert machine.must_offer(plain, said, runs) and not machine.must_offer(leased, said, runs)


@given(st.sampled_from(NodeRole), st.none() | NUMBERS, st.none() | NUMBERS)
def test_a_serving_node_s_own_revision_is_leased_over_its_pool_s(
    role: NodeRole, override: int | None, pool: int | None
) -> None:
    mark = machine.mark(role, override, pool, 0)
    if mark is None:
        assert override is None and pool is None
        return
    assert mark.revision == machine.wanted_revision(override, pool)
    on_trial = role is NodeRole.SERVING and override is not None and override != pool
    assert mark.promoted == (pool if on_trial else None)


def test_nothing_is_known_to_drift_where_nothing_is_wanted_or_reported() -> None:
    made = revision(3, EngineConfig(max_num_seqs=2))
    assert machine.drifts(Wish(made), None) is False
    assert machine.drifts(None, EffectiveConfig(revision=1, knobs={"max_num_seqs": 9})) is False
    assert machine.drifts(Wish(made), EffectiveConfig(revision=1, knobs={"max_num_seqs": 9})) is True


UNIX_MS = st.integers(0, 2**48 - 1)


def instance_uid(unix_ms: int, version: int = 7) -> str:
    return f"{unix_ms:012x}{version:x}0018000000000000000"


@given(UNIX_MS, UNIX_MS)
def test_of_two_agent_processes_the_one_that_began_earlier_is_known(first: int, second: int) -> None:
    assert machine.began_earlier(instance_uid(first), instance_uid(second)) == (first < second)


@given(UNIX_MS, UNIX_MS, st.sampled_from([(4, 7), (7, 4), (4, 4), (1, 7)]))
def test_of_uids_of_other_versions_nothing_is_known(first: int, second: int, versions: tuple[int, int]) -> None:
    assert not machine.began_earlier(instance_uid(first, versions[0]), instance_uid(second, versions[1]))
    assert not machine.began_earlier(instance_uid(first), None)


@pytest.mark.parametrize(
    ("before", "now", "news"),
    [
        (("engine:a", "tailwright 1"), ("engine:a", "tailwright 1"), None),
        (("engine:a", "tailwright 1"), ("engine:b", "tailwright 1"), machine.EngineNews.RESTARTED),
        (("engine:a", "tailwright 1"), ("engine:b", "tailwright 2"), machine.EngineNews.VERSION),
        (("engine:a", ""), ("engine:b", ""), machine.EngineNews.RESTARTED),
        # The same server is named by its plugin at first, and by its start time when that is gone.
        (("plugin:a", "vllm 1"), ("started:7", "vllm 1"), None),
        (("plugin:a", "vllm 1"), ("started:7", "vllm 2"), machine.EngineNews.VERSION),
        (("", ""), ("engine:a", "tailwright 1"), None),
    ],
)
def test_what_became_of_an_engine_is_told_by_names_of_one_source(before: Any, now: Any, news: Any) -> None:
    assert machine.engine_news(machine.Engine(*before), machine.Engine(*now)) is news


def test_an_agent_that_has_not_reached_its_engine_yet_says_nothing_new_of_it() -> None:
    before = machine.Engine("engine:a", "tailwright 1")
    assert machine.Engine().or_as(before) == before
    assert machine.engine_news(before, machine.Engine().or_as(before)) is None
