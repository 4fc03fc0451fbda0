"""How it is with a thing, in five kinds that every page draws alike: colour, shape and word.

Pure. Guarantee: each state of the contract has a kind; a word that is none of them is drawn as a plain tag.
"""

from enum import StrEnum


class Kind(StrEnum):
    """What a reader should make of a state."""

    GOOD = "good"  # As it should be.
    WARN = "warn"  # Under way, or open: look at it when there is time.
    BAD = "bad"  # Something is wrong, or was stopped.
    STALE = "stale"  # It was so once; nothing newer is known.
    UNKNOWN = "unknown"  # Nobody has told.


WORDS = {
    Kind.GOOD: ("healthy", "promoted", "better", "not_worse", "resolved", "finished", "delivered"),
    Kind.WARN: (
        *(
            "degraded",
            "differs",
            "pending",
            "acknowledged",
            "judging",
            "canary",
            "running",
            "promoting",
            "proposed",
            "applying",
        ),
        *("awaiting_approval", "validating", "soaking", "paused"),
        *("inconclusive", "not_better", "unjudged", "queued", "offered", "waiting"),
    ),
    Kind.BAD: ("offline", "unhealthy", "firing", "open", "failed", "worse", "rolled_back", "rolling_back", "given_up"),
    Kind.STALE: ("stale",),
    Kind.UNKNOWN: ("unknown",),
}
_KIND_OF = {word: kind for kind, words in WORDS.items() for word in words}


def kind_of(word: str) -> Kind | None:
    """The kind of a state by the contract's word for it; None for one that is neither good nor bad."""
    return _KIND_OF.get(word)
