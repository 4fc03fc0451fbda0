"""What is remembered of noise: each stretch once, older ones less, and as it was after it was stored."""

import json
import math

import pytest

from controlplane.alerts.regressions.noise_memory import KEPT, NoiseMemory
from controlplane.evidence.wander import Earlier, Seen

HOUR = 3600.0


def seen(pairs: float, square: float, scale: int = 4) -> list[Seen]:
    return [Seen(scale, pairs, square, 0.1)]


def test_stretches_are_joined_by_their_pairs_and_older_ones_count_less() -> None:
    memory = NoiseMemory()
    memory.add({"place": seen(10, 1.1)}, 0.0, 6 * HOUR)
    memory.add({"place": seen(10, 3.1)}, 6 * HOUR, 12 * HOUR)
    (held,) = memory.by_line["place"]
    assert held.pairs == pytest.approx(10 + 10 * KEPT)
    assert held.noise == pytest.approx((10 * KEPT * 1.0 + 10 * 3.0) / (10 + 10 * KEPT))


def test_of_what_overlaps_with_what_is_held_nothing_is_counted_twice() -> None:
    memory = NoiseMemory()
    memory.add({"place": seen(10, 1.1)}, 0.0, 6 * HOUR)
    memory.add({"place": seen(10, 9.1)}, HOUR, 7 * HOUR)
    assert memory.by_line == {"place": [Earlier(4, 10.0, pytest.approx(1.0))]}


def test_the_memory_is_of_days_not_of_all_time() -> None:
    memory = NoiseMemory()
    for stretch in range(100):
        memory.add({"place": seen(10, 1.0)}, stretch * HOUR, (stretch + 1) * HOUR)
    (held,) = memory.by_line["place"]
    assert held.pairs == pytest.approx(10 / (1 - KEPT), rel=0.01)


def test_lines_and_scales_are_remembered_apart_and_chance_may_be_below_nothing() -> None:
    memory = NoiseMemory()
    memory.add({"place": seen(10, 1.1), "tail": seen(10, 0.05)}, 0.0, HOUR)
    memory.add({"place": seen(5, 4.1, scale=8)}, HOUR, 2 * HOUR)
    assert [(one.scale, round(one.noise, 6)) for one in memory.by_line["place"]] == [(4, 1.0), (8, 4.0)]
    (tail,) = memory.by_line["tail"]
    assert tail.noise == pytest.approx(-0.05) and tail.under(0.2) == Seen(4, 10.0, 0.2, 0.2)


def test_it_is_stored_as_json_in_few_bytes_and_comes_back_to_four_digits() -> None:
    memory = NoiseMemory()
    assert NoiseMemory.load(json.loads(json.dumps(memory.dump()))) == memory
    memory.add({"place": [Seen(2**power, 2000.3 / 2**power, 0.012345678, 0.0) for power in range(12)]}, 0.0, 6 * HOUR)
    text = json.dumps(memory.dump())
    back = NoiseMemory.load(json.loads(text))
    assert len(text) < 300 and back.until_s == memory.until_s
    for one, other in zip(back.by_line["place"], memory.by_line["place"], strict=True):
        assert one == pytest.approx(other, rel=1e-3)
    assert NoiseMemory.load({}).until_s == -math.inf
