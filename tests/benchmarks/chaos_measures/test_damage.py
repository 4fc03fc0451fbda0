"""Drawn bytes are the same by their seed; real ones that are only compressed or framed are still what they were."""

import gzip
import random
import zlib
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.chaos_measures import damage

seeds = st.integers(0, 2**32)


@given(seed=seeds, body=st.binary(max_size=300))
def test_a_seed_draws_the_same_again(seed: int, body: bytes) -> None:
    def drawn() -> tuple[object, ...]:
        rng = random.Random(seed)
        sent = damage.damaged(rng, body), damage.protobuf(rng), damage.nearly_http(rng, ["/a"])
        return *sent, damage.nearly_frames(rng, body), damage.encoded(rng, body)

    assert drawn() == drawn()


@given(seed=seeds)
def test_a_real_message_is_damaged_more_often_than_not(seed: int) -> None:
    rng, body = random.Random(seed), bytes(range(200))
    assert sum(damage.damaged(rng, body) != body for _ in range(20)) > 10


_PLAIN: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "zstd": zstandard.ZstdDecompressor().decompress,
    "deflate": zlib.decompress,
}


@pytest.mark.parametrize("coding", sorted(_PLAIN))
def test_codings_are_mostly_whole(coding: str) -> None:
    body, rng, whole, damaged = b"a report" * 20, random.Random(1), 0, 0
    for _ in range(1000):
        found, said = damage.encoded(rng, body)
        if said == coding:
            try:
                whole += _PLAIN[coding](found) == body
            except (OSError, EOFError, zlib.error, zstandard.ZstdError):
                damaged += 1
    assert whole > 3 * damaged > 0


@pytest.mark.parametrize(("size", "head"), [(5, 6), (200, 8), (70_000, 14)])
def test_a_frame_has_its_length_and_an_empty_mask(size: int, head: int) -> None:
    sent = damage.frame(bytes(size))
    said = sent[1] & 127
    told = said if said < 126 else int.from_bytes(sent[2 : 4 if said == 126 else 10], "big")
    assert (sent[0], sent[1] & 128, told, len(sent)) == (0x82, 128, size, head + size)
