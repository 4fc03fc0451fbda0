"""A selector asked of the database lets in the nodes that it matches, page by page, on both databases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.changes.label_selector import Operator, Requirement, Selector
from controlplane.db.database import Database
from controlplane.fleet import store
from tests.controlplane.fleet.test_store import NOW

NAMES = ["region", "x.y/z", "a-b", "9", "pool", "role", "backend", "node", "Region"]
VALUES = ["eu-1", "us-2", "9", "true", "EU-1", "vllm", "serving", "n03", "null"]
LABELS = [name for name in NAMES if name not in ("pool", "role", "backend", "node")]

requirements = st.builds(
    Requirement,
    st.sampled_from(NAMES),
    st.sampled_from([Operator.IN, Operator.NOT_IN]),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=3, unique=True).map(lambda some: tuple(sorted(some))),
) | st.builds(Requirement, st.sampled_from(NAMES), st.sampled_from([Operator.EXISTS, Operator.ABSENT]))
selectors = st.lists(requirements, max_size=3).map(lambda some: Selector(tuple(some)))


@pytest.mark.slow
def test_the_database_lets_in_the_nodes_that_match(database: Database) -> None:
    with database.session() as session:
        for at in range(24):
            role, backend = ("trial" if at % 5 == 0 else "serving"), ("vllm" if at % 2 else "embedded")
            row = store.place(session, f"n{at:02}", pool=VALUES[at % 2], role=role, backend=backend, now=NOW)
            row.labels = {name: VALUES[(at * 7 + place) % 9] for place, name in enumerate(LABELS) if (at >> place) & 1}
            session.add(row)
    with database.session() as session:
        every = store.nodes(session)
        matched = set()

        @given(selectors)
        def agree(selector: Selector) -> None:
            wanted = [view.node for view in every if selector.matches(view.selectable)]
            matched.add(len(wanted))
            assert [view.node for view in store.nodes(session, selector=selector)] == wanted
            rest = store.nodes(session, selector=selector, after="n07", limit=2)
            assert [view.node for view in rest] == [name for name in wanted if name > "n07"][:2]

        agree()
    assert len(matched) > 5, "selectors that let in nobody, everybody and some"
