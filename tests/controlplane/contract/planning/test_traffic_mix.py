"""A mix is kept small and read back whole; what was not packed so is none."""

import base64
import zlib

import pytest

from controlplane.contract.bodies.workload import Workload
from controlplane.contract.planning.traffic_mix import LONGEST_MIX, LOOK_BACK, mix_of, packed_mix, unpacked_mix
from tuner.workload.generate import CONV, generate


@pytest.fixture(scope="module")
def made() -> Workload:
    return generate(CONV, seed=1, rate_per_s=5, requests=3000)


@pytest.mark.slow
def test_it_is_read_back_as_it_was(made: Workload) -> None:
    mix = mix_of(made)
    text = packed_mix(mix)
    assert unpacked_mix(text) == mix and 0 < len(text) < LONGEST_MIX


def test_too_little_traffic_is_none(made: Workload) -> None:
    few = mix_of(made.model_copy(update={"requests": made.requests[:LOOK_BACK]}))
    assert len(few) == 0 and packed_mix(few) == "" and unpacked_mix("") is None


def test_gaps_are_a_nodes_own(made: Workload) -> None:
    one, two = mix_of(made), mix_of(made, nodes=2)
    assert two.gaps_s == pytest.approx([2 * gap for gap in one.gaps_s], abs=2e-4)


def test_a_block_is_repeated_where_a_request_shortly_before_had_it(made: Workload) -> None:
    requests = [one.model_copy(update={"input_length": 32, "hash_ids": [0, place]}) for place, one in
                enumerate(made.requests[:LOOK_BACK * 2 + 1], 1)]  # fmt: skip
    requests[-1] = requests[-1].model_copy(update={"hash_ids": [LOOK_BACK, 10**9]})
    mix = mix_of(made.model_copy(update={"requests": requests}))
    assert set(mix.repeated[:-1]) == {0.5} and mix.repeated[-1] == 0.0, "101 requests ago"


@pytest.mark.parametrize(
    "text",
    ["no base64!", "AAAA", *(base64.b64encode(zlib.compress(one)).decode() for one in
      (b"[[1],[1],[1]]", b"[[1],[1],[1],[1,2]]", b'[["a"],[1],[1],[1]]', b"3", b"[" * 100_000, b"[" * 2**21))],
)  # fmt: skip
def test_what_is_no_mix_is_none(text: str) -> None:
    assert unpacked_mix(text) is None
