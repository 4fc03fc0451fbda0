"""What the palette finds for what was typed."""

from hypothesis import given
from hypothesis import strategies as st

from web.palette.matching import MOST, Entry, matching

NAMES = st.text("abc 1", min_size=1, max_size=8)
ENTRIES = st.lists(st.builds(Entry, st.sampled_from(["page", "node"]), NAMES, detail=NAMES), max_size=40)


@given(ENTRIES, st.text("abc 1", max_size=5))
def test_what_is_found_holds_each_word_and_nothing_that_fits_is_left_out(entries: list[Entry], typed: str) -> None:
    def fits(entry: Entry) -> bool:
        return all(word in f"{entry.name} {entry.kind} {entry.detail}" for word in typed.split())

    found = matching(entries, typed)
    assert all(fits(entry) for entry in found)
    assert len(found) == min(MOST, sum(map(fits, entries)))


def test_a_name_that_begins_so_comes_before_one_that_has_it_inside() -> None:
    beside = Entry("rollout", "Rollout 7", detail="revision 3 to chat")
    inside, word, begins = Entry("node", "wechat"), Entry("node", "eu chat"), Entry("node", "Chat-1")
    assert matching([beside, inside, word, begins], "chat") == [begins, word, inside, beside]
    assert matching([beside, begins], "ROLLOUT chat") == [beside]
