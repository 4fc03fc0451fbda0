"""Prompts share exactly what the hashes share."""

import itertools
import sysconfig
from pathlib import Path

import numpy as np

from tuner.workload.corpus import SKIPPED, _modules, read_tokens, sources
from tuner.workload.generate import CONV, fitted, generate
from tuner.workload.prompt import PromptMaker, prompts

CORPUS = np.random.default_rng(0).integers(0, 500, 20_000).tolist()


def _shared(a: list[int], b: list[int]) -> int:
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def test_prefixes_are_equal_exactly_when_the_hashes_are() -> None:
    workload = generate(fitted(CONV, max_input=512, max_output=32), seed=1, rate_per_s=5, requests=120)
    made = prompts(workload, CORPUS, salt=3)
    for (a, one), (b, other) in itertools.combinations(zip(workload.requests, made, strict=True), 2):
        blocks = _shared(a.hash_ids, b.hash_ids)
        assert one[: 16 * blocks] == other[: 16 * blocks]
        if blocks < min(len(a.hash_ids), len(b.hash_ids)):
            assert one[16 * blocks : 16 * blocks + 16] != other[16 * blocks : 16 * blocks + 16]
    assert [len(prompt) for prompt in made] == [request.input_length for request in workload.requests]


def test_deterministic_and_salted() -> None:
    workload = generate(fitted(CONV, max_input=512, max_output=32), seed=1, rate_per_s=5, requests=40)
    one, again, other = (prompts(workload, CORPUS, salt=salt) for salt in (1, 1, 2))
    assert one == again
    assert all(a[:16] != b[:16] for a, b in zip(one, other, strict=True) if len(a) >= 16)


def test_a_repetitive_corpus_still_gives_different_siblings() -> None:
    corpus = [7] * 4000 + list(range(500))
    maker = PromptMaker(corpus, block_size=16)
    first = [tuple(maker.prompt([identity], 16)) for identity in range(200)]
    assert len(set(first)) == 200


def test_text_reads_on_from_block_to_block() -> None:
    maker = PromptMaker(list(range(10_000)), block_size=16)
    prompt = maker.prompt([1, 2, 3], 50)
    assert prompt == list(range(prompt[0], prompt[0] + 50))


def test_forgetting_bounds_memory() -> None:
    maker = PromptMaker(CORPUS, block_size=16)
    before = maker.prompt([1, 2], 32)
    maker.forget()
    assert maker.blocks == 0 and maker.prompt([1, 2], 32) != before


def test_corpus_is_the_standard_library_and_the_held_out_part_is_apart() -> None:
    assert not set(sources()) & set(sources(held_out=True))
    assert len(sources(held_out=True)) > 5
    tokens = read_tokens(lambda text: [ord(letter) for letter in text], 5000)
    assert len(tokens) >= 5000


def test_the_corpus_is_looked_for_once_and_never_among_installed_packages() -> None:
    modules = sources() + sources(held_out=True)
    library = Path(sysconfig.get_paths()["stdlib"])
    assert modules and not [path for path in modules if SKIPPED & set(path.relative_to(library).parts)]
    assert sources() == sources()
    assert _modules.cache_info().misses == 1
