"""Token-id prompts for a workload that has no text: from its prefix hashes, deterministically.

Guarantee, inside one `PromptMaker`: two prompts agree in their first b blocks exactly when their first b hash ids
are equal. Equal arguments give equal prompts in every process; another `salt` gives other text, so that a replay does
not find the prefix cache of the one before it, while sharing inside the replay stays.

Text is taken from a corpus of the model's own domain in consecutive pieces: the first continuation of a prefix goes
on reading where the prefix ended, every other one jumps to a place chosen by its hash. So n-gram drafts and caches
behave as on real text.
"""

from collections.abc import Sequence

from controlplane.contract.bodies.workload import Workload
from controlplane.contract.errors import BadRequest
from tuner.workload.trace import hash_id

_Chain = tuple[int, ...]


class PromptMaker:
    """Reads prompts out of `corpus` (token ids). Blocks are remembered across calls to `prompt`, in order of the
    calls.
    """

    def __init__(self, corpus: Sequence[int], *, block_size: int, salt: int = 0) -> None:
        if len(corpus) < 4 * block_size:
            raise BadRequest(
                f"a corpus of {len(corpus)} tokens is too small for blocks of {block_size}", field="corpus"
            )
        self._corpus = list(corpus)
        self._block_size = block_size
        self._salt = salt
        self._places: dict[tuple[int, int], tuple[int, int]] = {}  # (parent's node, hash id) -> (own node, offset)
        self._taken: dict[int, set[_Chain]] = {}  # node -> the first tokens of its continuations
        self._nodes = 0

    def prompts(self, workload: Workload) -> list[list[int]]:
        """One prompt per request, in order. One maker for several workloads keeps what they share."""
        return [
            self.prompt(request.hash_ids, request.input_length, unique=index)
            for index, request in enumerate(workload.requests)
        ]

    def prompt(self, hash_ids: Sequence[int], input_length: int, unique: int = 0) -> list[int]:
        """`input_length` token ids. `unique` tells apart the tails of requests whose blocks are all equal."""
        size, node, end = self._block_size, 0, -1
        tokens: list[int] = []
        for identity in hash_ids[: input_length // size]:
            key = (node, identity)
            if key not in self._places:
                self._places[key] = self._place(node, end, size, identity)
            node, offset = self._places[key]
            tokens += self._read(offset, size)
            end = offset + size
        rest = input_length - len(tokens)
        if rest:
            offset = end if end >= 0 and rest < size else hash_id(self._salt, "tail", unique, node)
            tokens += self._read(offset, rest)
        return tokens

    @property
    def blocks(self) -> int:
        """How many different blocks are remembered."""
        return self._nodes

    def forget(self) -> None:
        """Start anew, to bound memory in endless traffic; prompts after it share nothing with those before."""
        self._places.clear()
        self._taken.clear()
        self._nodes = 0
        self._salt += 1

    def _place(self, parent: int, end: int, size: int, identity: int) -> tuple[int, int]:
        """A new node and the corpus offset of its block, whose text no sibling has."""
        taken = self._taken.setdefault(parent, set())
        offset = end if end >= 0 and not taken else hash_id(self._salt, identity)
        for _ in range(len(self._corpus)):
            text = tuple(self._read(offset, size))
            if text not in taken:
                taken.add(text)
                self._nodes += 1
                return self._nodes, offset % len(self._corpus)
            offset += 1
        raise BadRequest("the corpus has too few different blocks for this workload", field="corpus")

    def _read(self, offset: int, length: int) -> list[int]:
        """`length` tokens from `offset`, around the end of the corpus as often as needed."""
        corpus = self._corpus
        begin = offset % len(corpus)
        piece = corpus[begin : begin + length]
        while len(piece) < length:
            piece += corpus[: length - len(piece)]
        return piece


def prompts(workload: Workload, corpus: Sequence[int], *, salt: int = 0) -> list[list[int]]:
    """One prompt per request of `workload`, in its order."""
    return PromptMaker(corpus, block_size=workload.block_size, salt=salt).prompts(workload)
