"""Texts that exist wherever Python does: some to calibrate on, others, held out, to measure quality on.

Code is the source of modules of the standard library, prose its language reference (`pydoc_data.topics`). What the
bundled model was trained on is not held out from it; for the comparison of formats that does not matter, since all of
them, the unquantized one too, read the same text.
"""

import importlib
import inspect
from pydoc_data.topics import topics

_CALIBRATION_MODULES = ("argparse", "textwrap", "json.decoder", "heapq", "configparser")
_HELD_OUT_MODULES = ("random", "statistics", "string", "shelve")
_HELD_OUT_TOPICS = ("class", "exceptions", "numeric-types", "imports", "lambda", "naming")
_PIECE_CHARACTERS = 6000


def calibration_texts() -> list[str]:
    """Pieces of code and prose, none of them held out."""
    prose = "\n".join(text for name, text in sorted(topics.items()) if name not in _HELD_OUT_TOPICS)
    return [*_sources(_CALIBRATION_MODULES), *(prose[at : at + _PIECE_CHARACTERS] for at in (0, 60_000, 200_000))]


def held_out_texts() -> list[str]:
    """Pieces of code and prose for quality figures; calibration sees none of them."""
    return [*_sources(_HELD_OUT_MODULES), "\n".join(topics[name] for name in _HELD_OUT_TOPICS if name in topics)]


def _sources(modules: tuple[str, ...]) -> list[str]:
    return [inspect.getsource(importlib.import_module(name))[:_PIECE_CHARACTERS] for name in modules]
