"""What counts as readable Python."""

import pytest

from agents.models.training.readability import function_headers, readable_share
from agents.models.training.training_text import Document, Kind


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("def f(x):\n    return x\n", 1.0),
        ("def f(x):\n    if x:\n        cut here", 1.0),  # The last line is not complete.
        ('def f(x):\n    """A string that the cut left\n    open\n', 1.0),
        ("def f(x):\n    return x\n)) ((\n== ==\n", 0.5),
        ("the quick brown fox\njumps over\n", 0.0),
        ("", 0.0),
    ],
)
def test_share_of_lines(text: str, share: float) -> None:
    assert readable_share(text) == share


def test_headers_are_those_of_methods_too() -> None:
    text = "class A:\n    def method(self, other):\n        return other\n\ndef alone():\n    pass\n"
    assert list(function_headers([Document("a.py", text, Kind.LIBRARY)])) == ["def method(self, other):\n"]
