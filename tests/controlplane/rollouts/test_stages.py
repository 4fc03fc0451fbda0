"""Waves of a pool whose nodes no wave may mix."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.rollouts import RolloutCreate, RolloutPhase, Stage
from controlplane.rollouts.decision import State
from controlplane.rollouts.outlook import waves_of
from controlplane.rollouts.stages import alike, grouped, ordered, size_after, sizes, wave_size
from controlplane.rollouts.time_bounds import longest_s, phase_bound_s

SPEC = RolloutCreate(pool="chat", revision=2, wave_by="region")
pools = st.lists(st.sampled_from(["", "eu", "us", "ap"]), min_size=1, max_size=40).map(
    lambda regions: {f"n{number}": region for number, region in enumerate(regions)}
)
specs = st.builds(
    lambda stages, share, step, order: SPEC.model_copy(
        update={"stages": stages, "canary_share": share, "max_step_share": step, "wave_order": order}
    ),
    st.sampled_from([[], [Stage(share=0), Stage(share=0.1), Stage(share=0.5, pause=True), Stage(share=1)]]),
    st.floats(0.01, 0.5),
    st.none() | st.floats(0.01, 1),
    st.lists(st.sampled_from(["eu", "us", "ap", "sa"]), unique=True),
)


@given(pools, specs, st.none() | st.integers(1, 40))
def test_each_node_is_told_once_no_wave_mixes_groups_and_limits_hold(
    pool: dict[str, str], spec: RolloutCreate, canary: int | None
) -> None:
    groups = grouped(pool, [], spec.wave_order, canary)
    order = sorted(pool, key=lambda node: [name for name, _ in groups.counts].index(pool[node]))
    waves = waves_of(spec, groups, order)
    assert [node for wave in waves for node in wave.named] == order and waves[-1].nodes == len(pool)
    for wave in waves:
        assert wave.named and {pool[node] for node in wave.named} == {wave.group}
    done = [wave.group for wave in waves]
    assert list(dict.fromkeys(done)) == [name for name, _ in groups.counts], "each group is done before the next"
    assert all(done.index(one) + done.count(one) > place for place, one in enumerate(done))
    assert canary is None or len(waves[0].named) <= canary
    for before, after in pairwise([0, *sizes(spec, groups)]):
        assert before < after <= size_after(spec, before, len(pool)), "a label makes no wave larger"
        if spec.max_step_share is not None:
            assert after - before <= wave_size(spec.max_step_share, len(pool))


@given(st.integers(1, 60), specs)
def test_of_one_group_waves_are_as_without_a_label(nodes: int, spec: RolloutCreate) -> None:
    found = [size_after(spec, 0, nodes)]
    while found[-1] < nodes:
        found.append(size_after(spec, found[-1], nodes))
    assert sizes(spec, alike(nodes)) == found


def test_what_has_begun_goes_first_then_the_order_then_names_and_those_without_last() -> None:
    assert ordered(["us", "", "eu", "ap", "sa"], ["sa"], ["us", "nowhere"]) == ["sa", "us", "ap", "eu", ""]
    pool = {"a": "eu", "b": "us", "c": "us"}
    assert grouped(pool, ["b"], ["eu"]).counts == (("us", 2), ("eu", 1)), "the canary's group is done first"


def test_a_pause_stays_at_its_stage_where_groups_cut_it() -> None:
    spec = SPEC.model_copy(update={"stages": [Stage(share=0), Stage(share=0.5, pause=True), Stage(share=1)]})
    groups = grouped({f"n{number}": "eu" if number < 3 else "us" for number in range(10)}, [], [])
    assert [(wave.nodes, wave.group, wave.pauses) for wave in waves_of(spec, groups)] == [
        (1, "eu", False),
        (3, "eu", False),
        (5, "us", True),
        (10, "us", False),
    ]
    by_group = spec.model_copy(update={"wave_soak_s": 3600.0, "wave_pause": True, "soak_s": 60.0, "emergency": False})
    waves = waves_of(by_group, groups)
    assert [(wave.pauses, wave.soak_s) for wave in waves] == [(False, 60), (True, 3600), (True, 60), (False, 60)]
    assert waves[1].says == "3 of 10 nodes (region eu), then judged; watched on for 3600 s; then a person resumes"
    assert longest_s(by_group, waves) - longest_s(spec, waves_of(spec, groups)) == 3600 + 3 * 60
    for told, bound_s in ((1, 60), (3, 3600), (5, 60), (10, 60)):
        nodes = tuple(f"n{number}" for number in range(told))
        soaking = State(RolloutPhase.SOAKING, by_group, canary_nodes=nodes[:1], told_nodes=nodes)
        assert phase_bound_s(soaking, groups) == bound_s
    assert waves_of(spec, groups)[1].says == "3 of 10 nodes (region eu), then judged"
