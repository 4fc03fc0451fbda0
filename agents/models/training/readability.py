"""Whether a completion is recognisable Python: how much of it `ast` reads.

Guarantees: only whole lines count, since generation stops anywhere; a string or block left open by the cut is closed
first.
"""

from __future__ import annotations

import ast
import textwrap
import warnings
from collections.abc import Iterable, Iterator

from agents.models.training.training_text import Document


def readable_share(text: str) -> float:
    """Share of the complete lines of `text`, from its start, that parse as Python."""
    lines = text.split("\n")[:-1]
    for count in range(len(lines), 0, -1):
        if _parses(lines[:count]):
            return count / len(lines)
    return 0.0


def _parses(lines: list[str]) -> bool:
    indent = len(lines[-1]) - len(lines[-1].lstrip())
    for ending in ("", "\n" + " " * (indent + 4) + "pass", "\n" + " " * indent + '"""', "\n" + " " * indent + "pass"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse("\n".join(lines) + ending)
        except (SyntaxError, ValueError):
            continue
        return True
    return False


def function_headers(documents: Iterable[Document]) -> Iterator[str]:
    """The `def` lines, without indentation, of the documents' functions."""
    for document in documents:
        if not document.name.endswith(".py"):
            continue
        try:
            tree = ast.parse(document.text)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and len(node.args.args) >= 2:
                source = ast.get_source_segment(document.text, node, padded=True) or ""
                header = textwrap.dedent(source).split("\n")[0]
                if header.startswith("def ") and header.endswith(":"):
                    yield header + "\n"
