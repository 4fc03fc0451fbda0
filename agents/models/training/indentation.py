"""Other ways to cut a line's beginning into tokens, so that a prompt may end anywhere in it.

The tokenizer joins a line's end with the indentation that follows and leaves the last space to the next word: the text
`":\\n    return"` is `:`, `\\n___`, `_return` (a space drawn as _). A prompt that ends with the line, or with the
indentation, is cut differently, and a model that never saw such a cut goes on as if the indentation were over.

Guarantees: a resplit window decodes to the same text; only a given share of the places changes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

_NEWLINE, _SPACE = "Ċ", "Ġ"  # How byte-level BPE writes the two bytes.


class Resplitter:
    """Cuts line beginnings otherwise, at random: after the newline, or after the whole indentation."""

    def __init__(self, tokenizer: Tokenizer, after_newline: float = 0.10, after_indentation: float = 0.05) -> None:
        self._after_newline, self._after_indentation = after_newline, after_indentation
        ids: dict[str, int] = tokenizer.get_vocab()
        breaks = {
            token: (token.rstrip(_SPACE), token.lstrip(_NEWLINE))
            for token in ids
            if token.startswith(_NEWLINE) and token.endswith(_SPACE) and not token.strip(_NEWLINE + _SPACE)
        }
        self._parts = {
            ids[token]: (ids[newlines], ids[spaces])
            for token, (newlines, spaces) in breaks.items()
            if newlines in ids and spaces in ids
        }
        self._longer = {ids[token]: ids[token + _SPACE] for token in breaks if token + _SPACE in ids}
        self._bare = {
            ids[token]: ids[token[1:]] for token in ids if token.startswith(_SPACE) and token[1:] and token[1:] in ids
        }
        self._indenting = np.array(sorted(self._parts | self._longer), dtype=np.int64)

    def __call__(self, window: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
        """The same text in at least as many tokens."""
        places = np.flatnonzero(np.isin(window, self._indenting))
        tokens: list[list[int]] = [[token] for token in window.tolist()]
        for place, chance in zip(places.tolist(), random.random(len(places)).tolist(), strict=True):
            token = tokens[place][0]
            if chance < self._after_newline:
                tokens[place] = list(self._parts.get(token, (token,)))
            elif chance < self._after_newline + self._after_indentation and place + 1 < len(tokens):
                following = tokens[place + 1][0]
                if token in self._longer and following in self._bare:
                    tokens[place], tokens[place + 1] = [self._longer[token]], [self._bare[following]]
        return np.array([token for part in tokens for token in part], dtype=np.int64)
