"""Batches of token windows: each kind of document has its weight, and a pass over a kind repeats no text.

Guarantees: the same corpus, tokenizer and seed give the same batches; documents are joined by the end-of-text token,
which also comes first, so that the model learns to begin a document; some line beginnings are cut otherwise (see
`indentation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from agents.models.training.indentation import Resplitter
from agents.models.training.training_text import Document, Kind
from agents.models.training.vocabulary import END_OF_TEXT_ID

WEIGHTS: Mapping[Kind, float] = {Kind.LIBRARY: 0.62, Kind.TEST: 0.30, Kind.CHAT: 0.08}


def encode(documents: Iterable[Document], tokenizer: Tokenizer) -> NDArray[np.int64]:
    """All documents' tokens in a row, each document preceded by end-of-text."""
    ids: list[int] = []
    for encoding in tokenizer.encode_batch([document.text for document in documents], add_special_tokens=False):
        ids.append(END_OF_TEXT_ID)
        ids.extend(encoding.ids)
    return np.asarray(ids, dtype=np.int64)


class Sampler:
    """Draws (rows, length + 1) windows; rows of a batch come from the kinds in proportion to their weights."""

    def __init__(self, documents: Sequence[Document], tokenizer: Tokenizer, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        streams = {kind: encode([d for d in documents if d.kind is kind], tokenizer) for kind in Kind}
        self._streams = {kind: stream for kind, stream in streams.items() if len(stream)}
        weights = np.array([WEIGHTS[kind] for kind in self._streams])
        self._weights = weights / weights.sum()
        self._resplit = Resplitter(tokenizer)
        self._pending: dict[tuple[Kind, int], list[int]] = {}

    @property
    def tokens(self) -> dict[str, int]:
        """Tokens in one pass over each kind."""
        return {kind.value: len(stream) for kind, stream in self._streams.items()}

    def batch(self, rows: int, length: int) -> Tensor:
        kinds = list(self._streams)
        drawn = self._random.choice(len(kinds), size=rows, p=self._weights)
        return torch.from_numpy(np.stack([self._window(kinds[index], length) for index in drawn]))

    def _window(self, kind: Kind, length: int) -> NDArray[np.int64]:
        stream = self._streams[kind]
        if len(stream) <= length:
            stream = np.resize(stream, length + 1)
        pending = self._pending.setdefault((kind, length), [])
        if not pending:
            # Each pass cuts the stream at another offset, so that windows never repeat exactly.
            offset = int(self._random.integers(0, min(length, len(stream) - length)))
            starts = np.arange(offset, len(stream) - length, length)
            pending.extend(self._random.permutation(starts).tolist())
        start = pending.pop()
        return self._resplit(stream[start : start + length + 1], self._random)[: length + 1]
