"""Four eyes: who has proposed an emergency, and whether who approves it is somebody else.

Guarantee: the token that proposed never approves, nor does the same person by another session, a token with the same
owner or the person's name for one, or a token that one of the two has made from the other: whoever holds a token of
scope admin can make more of them.
"""

from dataclasses import asdict, dataclass
from typing import Any

from sqlmodel import Session

from controlplane.auth import Principal
from controlplane.auth import store as tokens


@dataclass(frozen=True)
class Hand:
    """Who acts. `made_from`: the tokens that a token was made with, and so on back; `names`: its own, its owner's."""

    token_id: int | None
    person_id: int | None
    made_from: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    def kept(self) -> dict[str, Any]:
        """As a rollout's row has it."""
        return asdict(self)

    @classmethod
    def of_kept(cls, kept: dict[str, Any]) -> "Hand":
        return cls(kept["token_id"], kept["person_id"], tuple(kept["made_from"]), tuple(kept["names"]))


def hand_of(session: Session, principal: Principal) -> Hand:
    """Whose hand this principal is, as the database knows it now."""
    if principal.token_id is None:
        return Hand(None, principal.person_id, names=(_plain(principal.name),))
    token = tokens.get(session, principal.token_id)
    owners = () if token is None or token.owner is None else (_plain(token.owner),)
    names = tuple(dict.fromkeys((_plain(principal.name), *owners)))
    return Hand(principal.token_id, None, tuple(tokens.made_from(session, principal.token_id)), names)


def why_the_same(one: Hand, other: Hand) -> str | None:
    """Why two hands count as one, in words; None where they are two people's."""
    if one.person_id is not None and one.person_id == other.person_id:
        return "you have proposed it yourself"
    if one.token_id is not None and one.token_id == other.token_id:
        return "this token has proposed it itself"
    if one.token_id in other.made_from or other.token_id in one.made_from:
        return "of the two tokens one was made with the other"
    shared = set(one.names) & set(other.names)
    if shared:
        return f"both are {min(shared)!r}, by name or owner"
    return None


def _plain(name: str) -> str:
    return " ".join(name.casefold().split())
