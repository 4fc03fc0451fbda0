"""The shared table of ln n!: right, long enough for everybody, and nobody's to change."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from controlplane.evidence import log_factorials as module
from controlplane.evidence.log_factorials import LogFactorials, log_factorials


def test_it_is_the_logarithm_of_the_factorial() -> None:
    table = log_factorials(300)
    assert len(table) > 300
    assert table[:301] == pytest.approx([math.lgamma(n + 1) for n in range(301)], rel=1e-12)
    assert list(LogFactorials().up_to(0)) == [0.0]


def test_nobody_changes_what_others_read() -> None:
    with pytest.raises(ValueError, match="read-only"):
        log_factorials(5)[3] = 0.0


def test_one_who_asks_for_less_does_not_shorten_what_another_was_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    """The small table is held while it is made; who wants a long one meanwhile must get it, and it must stay."""
    made, begun, go_on = module._table_of, threading.Event(), threading.Event()
    asked = LogFactorials()

    def held(size: int) -> Any:
        if size < 100:
            begun.set()
            assert go_on.wait(10)
        return made(size)

    monkeypatch.setattr(module, "_table_of", held)
    with ThreadPoolExecutor(2) as threads:
        short = threads.submit(asked.up_to, 10)
        assert begun.wait(10)
        long = threads.submit(asked.up_to, 5000)
        with pytest.raises(TimeoutError):
            long.result(0.2)  # One at a time makes the table longer.
        go_on.set()
        assert len(short.result(10)) > 10
        assert len(long.result(10)) > 5000
    assert len(asked.up_to(10)) > 5000, "the longer table is the one that is kept"


def test_many_threads_each_get_a_table_that_is_long_enough() -> None:
    asked, together = LogFactorials(), threading.Barrier(8)

    def ask(seed: int) -> bool:
        sizes = np.random.default_rng(seed).integers(1, 20_000, 200)
        together.wait(10)
        return all(len(asked.up_to(int(size))) > size for size in sizes)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(ask, range(8)))
