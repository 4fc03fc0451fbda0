"""Other cuts of a line's beginning keep the text."""

import inspect

import numpy as np
import pytest
from tokenizers import Tokenizer

from agents.models.training import vocabulary
from agents.models.training.__main__ import TARGET
from agents.models.training.indentation import Resplitter

TEXT = inspect.getsource(inspect)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return vocabulary.train([TEXT], 600)


@pytest.mark.parametrize(("after_newline", "after_indentation"), [(0.1, 0.05), (1.0, 0.0), (0.0, 1.0)])
def test_the_text_stays(tokenizer: Tokenizer, after_newline: float, after_indentation: float) -> None:
    tokens = np.array(tokenizer.encode(TEXT).ids)
    cut = Resplitter(tokenizer, after_newline, after_indentation)(tokens, np.random.default_rng(1))
    assert cut.tolist() != tokens.tolist()
    assert tokenizer.decode(cut.tolist()) == TEXT


def test_both_cuts_are_those_that_prompts_get() -> None:
    tokenizer = Tokenizer.from_file(str(TARGET / "tokenizer.json"))
    line, indented = tokenizer.encode("def f(a):\n").ids, tokenizer.encode("def f(a):\n    ").ids
    tokens, random = np.array(tokenizer.encode("def f(a):\n    return a").ids), np.random.default_rng(1)
    assert tokens.tolist()[: len(line)] != line
    assert Resplitter(tokenizer, 1.0, 0.0)(tokens, random).tolist()[: len(line)] == line
    assert Resplitter(tokenizer, 0.0, 1.0)(tokens, random).tolist()[: len(indented)] == indented
