import itertools
from pathlib import Path

import pytest

from benchmarks.engine_measures.traffic import mixture, recorded


def test_one_seed_gives_one_traffic() -> None:
    assert mixture("a", 50) == mixture("a", 50)
    assert mixture("a", 50) == mixture("a", 80)[:50]
    assert mixture("a", 50) != mixture("b", 50)


def test_the_mixture_is_as_described() -> None:
    shapes = mixture("mix", 4000)
    assert all(16 <= shape.prompt_tokens <= 1200 and 8 <= shape.max_tokens <= 96 for shape in shapes)
    assert all(earlier.at < later.at for earlier, later in itertools.pairwise(shapes))
    assert shapes[-1].at / len(shapes) == pytest.approx(1.0, rel=0.06)
    assert sum(shape.prompt_tokens > 200 for shape in shapes) / len(shapes) == pytest.approx(0.26, abs=0.03)


def test_a_trace_keeps_its_rhythm_and_cuts_its_lengths(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.0000000,374,44\n"
        "2023-11-16 18:15:48.0000000,5000,1000\n"
        "2023-11-16 18:15:54.0000000,3,1\n"
    )
    shapes = recorded(path, "seed", 2)
    assert [shape.at for shape in shapes] == [0.5, 2.0]
    assert [(shape.prompt_tokens, shape.max_tokens) for shape in shapes] == [(1200, 96), (16, 8)]
    with pytest.raises(ValueError, match="3 requests, but 4 are wanted"):
        recorded(path, "seed", 3)
