"""Filters and groups over label sets: as if each set was looked at by itself, each read once, bounded in memory."""

from collections.abc import Iterable, Mapping

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.queries.grouping import LEFT_OUT, Grouping, Groupings
from controlplane.telemetry.queries.label_columns import LabelColumns

LABELS, VALUES = ("pool", "node", "revision"), ("", "a", "b", "c")
label_sets = st.lists(
    st.dictionaries(st.sampled_from(LABELS), st.sampled_from(VALUES[1:])), min_size=1, max_size=30
).map(lambda sets: dict(enumerate(sets, start=1)))
ways = st.tuples(
    st.lists(st.sampled_from(LABELS), unique=True),
    st.dictionaries(
        st.sampled_from(LABELS),
        st.one_of(st.sampled_from((*VALUES, "unheard of")), st.lists(st.sampled_from(VALUES), unique=True)),
        max_size=2,
    ),
)


class Known:
    """Label sets, and which of them were asked for."""

    def __init__(self, sets: Mapping[int, Mapping[str, str]]) -> None:
        self.sets, self.asked = sets, list[int]()

    def __call__(self, ids: Iterable[int]) -> Mapping[int, Mapping[str, str]]:
        wanted = list(ids)
        self.asked += wanted
        return {number: self.sets[number] for number in wanted}


@given(label_sets, st.lists(ways, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_groups_as_if_each_set_was_looked_at_by_itself(sets, asked, random) -> None:
    groupings, known = Groupings(), Known(sets)
    for by, where in asked:
        grouping = groupings.get(by, where)
        ids = random.choices(list(sets), k=20)
        # Some are asked for first, the others come to what is there.
        for part in (ids[:7], ids):
            groups = grouping.rows(np.array(part, np.int32), known).tolist()
            for number, group in zip(part, groups, strict=True):
                labels = sets[number]
                let_in = all(
                    labels.get(label, "") in ([values] if isinstance(values, str) else values)
                    for label, values in where.items()
                )
                assert (group != LEFT_OUT) == let_in
                if let_in:
                    assert grouping.labels(group) == {label: labels.get(label, "") for label in by}
            distinct = {tuple(sets[one].get(label, "") for label in by) for one in part}
            assert len({group for group in groups if group != LEFT_OUT}) <= len(distinct)
    assert len(known.asked) == len(set(known.asked))


def test_one_group_has_one_number() -> None:
    known = Known({number: {"pool": "ab"[number % 2], "node": str(number)} for number in range(1, 3000)})
    grouping = Grouping(("pool",), {}, LabelColumns())
    groups = grouping.rows(np.arange(1, 3000, dtype=np.int32), known)
    assert len(set(groups.tolist())) == 2
    assert [grouping.labels(int(groups[0])), grouping.labels(int(groups[1]))] == [{"pool": "b"}, {"pool": "a"}]


def test_many_labels_of_many_values_stay_apart() -> None:
    """The product of their numbers of values is far beyond 64 bits."""
    names = [f"label-{number}" for number in range(9)]
    known = Known({number: {name: f"{name}-{number}" for name in names} for number in range(1, 3001)})
    grouping = Grouping(names, {}, LabelColumns())
    assert len(set(grouping.rows(np.arange(1, 3001, dtype=np.int32), known).tolist())) == 3000


def test_what_is_remembered_is_bounded_in_memory() -> None:
    known = Known({number: {"node": str(number)} for number in range(1, 5001)})
    ids = np.arange(1, 5001, dtype=np.int32)
    groupings = Groupings(held_bytes=1 << 20)
    dear = groupings.get(("node",), {})
    dear.rows(ids, known)
    held = [groupings.get((), {"node": str(number)}) for number in range(200)]
    for grouping in held:
        grouping.rows(ids, known)
    groupings.get((), {"node": "199"})
    assert 1 < len(groupings) <= 32
    assert groupings.get((), {"node": "199"}) is held[-1]
    assert groupings.get(("node",), {}) is not dear
    assert len(known.asked) == 5000
