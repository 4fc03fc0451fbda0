"""Four eyes: two hands are two people's, whatever tokens one of them holds or makes."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from controlplane.auth import Principal
from controlplane.auth import store as tokens
from controlplane.contract.bodies.access import Scope, TokenCreate
from controlplane.db.database import Database
from controlplane.ledger import Actor
from controlplane.rollouts.approval import Hand, hand_of, why_the_same

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NUMBERS = st.one_of(st.none(), st.integers(1, 4))
HANDS = st.builds(
    Hand,
    NUMBERS,
    NUMBERS,
    st.lists(st.integers(1, 4), max_size=3).map(tuple),
    st.lists(st.sampled_from("abc"), max_size=2).map(tuple),
)


@given(HANDS, HANDS)
def test_who_proposes_and_who_approves_may_change_places(one: Hand, other: Hand) -> None:
    assert (why_the_same(one, other) is None) is (why_the_same(other, one) is None)


@given(HANDS)
def test_nobody_is_somebody_else_and_what_is_kept_says_the_same(one: Hand) -> None:
    assert Hand.of_kept(one.kept()) == one
    if one.token_id is not None or one.person_id is not None or one.names:
        assert why_the_same(one, one) is not None


def test_two_people_are_two() -> None:
    assert why_the_same(Hand(None, 1, names=("ada",)), Hand(None, 2, names=("eve",))) is None
    assert why_the_same(Hand(3, None, names=("ci", "ada")), Hand(None, 2, names=("eve",))) is None
    # Two tokens that a third has made, for two people.
    assert why_the_same(Hand(3, None, (1,), ("a",)), Hand(4, None, (1,), ("b",))) is None


def test_a_token_of_one_s_own_making_is_no_second_hand(database: Database) -> None:
    with database.session() as session:
        first = tokens.issue(session, name="root", scope=Scope.ADMIN, now=NOW)[0]

        def made(name: str, by: int, owner: str | None = None) -> Principal:
            wanted = TokenCreate(name=name, scope=Scope.ADMIN, owner=owner)
            view = tokens.create(session, wanted, actor=Actor("maker", by), now=NOW)
            return Principal(name, Scope.ADMIN, view.id)

        root = Principal("root", Scope.ADMIN, first.id)
        ada, eve = made("ada-laptop", first.id, "Ada"), made("eve", first.id, "Eve")
        hers = made("x", ada.token_id or 0, "somebody else")
        grandchild = made("y", hers.token_id or 0, "nobody")
        hand = {one.name: hand_of(session, one) for one in (root, ada, eve, hers, grandchild)}
    assert why_the_same(hand["ada-laptop"], hand["eve"]) is None
    for one, other in (("x", "ada-laptop"), ("y", "ada-laptop"), ("ada-laptop", "root"), ("y", "root")):
        assert "one was made with the other" in str(why_the_same(hand[one], hand[other]))
    person = Hand(None, 7, names=("ada",))
    assert why_the_same(person, hand["ada-laptop"]) == "both are 'ada', by name or owner"
    assert why_the_same(person, hand["eve"]) is None
