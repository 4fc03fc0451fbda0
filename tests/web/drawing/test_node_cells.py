"""Cells of nodes: every node has one, in its group, and the scale holds every value."""

import json
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from web.drawing.heat_map import LEVELS
from web.drawing.node_cells import Node, node_cells, scale_of
from web.frame.rendering import templates

nodes = st.lists(
    st.builds(
        Node,
        name=st.text(min_size=1, max_size=4),
        group=st.sampled_from(["a", "b", "c"]),
        value=st.one_of(st.none(), st.floats(-1e3, 1e3)),
        state=st.sampled_from(["healthy", "offline", "stale", "unheard of"]),
    ),
    max_size=40,
    unique_by=lambda node: node.name,
)


@given(nodes)
def test_every_node_has_one_cell_in_its_group_the_highest_first(of: list[Node]) -> None:
    cells = node_cells(of)
    told = json.loads(cells.data)
    by_name = {node.name: node for node in of}
    assert sorted(told["names"]) == sorted(by_name) and cells.count == len(of)
    lists = [told[name] for name in ("names", "levels", "states", "kinds", "words")]
    assert {len(one) for one in lists} == {len(of)}
    ordered = [by_name[name] for name in told["names"]]
    assert [(name, len(list(group))) for name, group in groupby(ordered, key=lambda node: node.group)] == [
        tuple(group) for group in told["groups"]
    ]
    for _, group in groupby(zip(ordered, told["levels"], strict=True), key=lambda one: one[0].group):
        levels = [level for _, level in group]
        assert levels == sorted(levels, reverse=True)
    for node, level, state in zip(ordered, told["levels"], told["states"], strict=True):
        assert (level == -1) == (node.value is None)
        assert told["state_words"][state] == node.state
        if node.value is not None:
            assert cells.scale[level].least <= node.value or level == 0
            assert level == len(cells.scale) - 1 or node.value < cells.scale[level + 1].least


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=50))
def test_the_scale_rises_from_the_lowest_value_in_even_ratios(values: list[float]) -> None:
    scale = scale_of(values)
    assert len(scale) in (1, LEVELS) and scale[0].least == min(values)
    assert [step.least for step in scale] == sorted(step.least for step in scale)
    assert scale[-1].least <= max(values) * (1 + 1e-9)
    assert scale_of([]) == []


def test_it_says_how_many_stand_out_and_where_the_highest_is() -> None:
    of = [
        Node("gpu-1", "chat", 1.2, "healthy"),
        Node("gpu-2", "chat", 1.84, "offline"),
        Node("x", "code", None, "stale"),
    ]
    said = node_cells(of).sentence
    assert said == "3 nodes in 2 groups: 1 bad, 1 stale; the highest p99 is 1.84 s, on gpu-2."
    assert node_cells(of[:1]).sentence == "1 node: all good; the highest p99 is 1.20 s, on gpu-1."
    assert node_cells(of[2:]).sentence == "1 node: 1 stale; none has told its p99."
    assert node_cells([]).sentence == "No nodes."


def test_ten_thousand_nodes_are_no_elements_but_data() -> None:
    of = [Node(f"gpu-{at}", f"pool {at % 3}", 0.1 + at / 1000, "healthy") for at in range(10_000)]
    text = str(templates.get_template("components/node_cells.html").module.node_cells(node_cells(of), "<All>"))  # type: ignore[attr-defined]
    assert text.count("<") < 60 and "style=" not in text and "<All>" not in text
    assert len(text) < 600_000
