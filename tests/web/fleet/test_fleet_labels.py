"""Labels on the fleet's page: what a selector matches one by one, groups that can be looked at, few links."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.changes.label_selector import Operator, Requirement, Selector, parsed
from tests.web.columns_of import columns_of
from tests.web.part_html import NOW
from web.fleet.fleet_labels import MOST_GROUPS, offered_labels, row_labels, selected, selector_of, values_of
from web.frame.selection import selection_of

names = st.sampled_from(["region", "gpu", "rack", "node", "pool", "role", "backend"])
values = st.sampled_from(["eu-1", "us-2", "H100", "n3", "chat", "trial", "vllm"])
requirements = st.builds(
    Requirement,
    names,
    st.sampled_from([Operator.IN, Operator.NOT_IN]),
    st.lists(values, min_size=1, max_size=2, unique=True).map(lambda some: tuple(sorted(some))),
) | st.builds(Requirement, names, st.sampled_from([Operator.EXISTS, Operator.ABSENT]))
labels = st.dictionaries(st.sampled_from(["region", "gpu", "rack"]), values)


def node(name: str, **more: object) -> NodeView:
    told = {"node": name, "pool": "chat", "role": "serving", "backend": "vllm", "connected": True, "healthy": True}
    return NodeView.model_validate({**told, **more})


@given(st.lists(labels, max_size=8), st.lists(requirements, max_size=3))
def test_those_are_chosen_that_match_one_by_one(said: list[dict[str, str]], wanted: list[Requirement]) -> None:
    nodes = [node(f"n{at}", labels=one, role=["serving", "trial"][at % 2]) for at, one in enumerate(said)]
    selector = Selector(tuple(wanted))
    matching = [at for at, view in enumerate(nodes) if selector.matches(view.selectable)]
    assert selected(columns_of(nodes), range(len(nodes)), selector) == matching


def test_labels_that_most_nodes_have_are_offered_and_the_chosen_one() -> None:
    nodes = [node(f"n{at:02}", labels={f"l{place}": "x" for place in range(at + 1)}) for at in range(12)]
    nodes.append(node("n99", labels={"region": "eu-1"}))
    assert offered_labels(columns_of(nodes), "") == [f"l{place}" for place in range(8)]
    assert offered_labels(columns_of(nodes), "l9") == [*(f"l{place}" for place in range(8)), "l9"]


def test_values_beyond_those_that_can_be_looked_at_are_told_together() -> None:
    few = columns_of([node(f"n{at:03}", labels={"rack": f"r{at:03}"}) for at in range(MOST_GROUPS)])
    assert values_of(few, "rack") == [f"r{at:03}" for at in range(MOST_GROUPS)]
    many = columns_of([node(f"n{at:03}", labels={"rack": f"r{at // 2:03}"}) for at in range(4 * MOST_GROUPS)])
    told = values_of(many, "rack")
    assert len(set(told)) == MOST_GROUPS and told[0] == "r000"
    assert told[-1] == f"{MOST_GROUPS + 1} others" and told.count(told[-1]) == 2 * (MOST_GROUPS + 1)


def test_a_row_writes_a_few_labels_and_each_narrows_the_choice() -> None:
    selection = selection_of({"selector": "gpu in (H100, H200), spot", "page": "3"}, NOW)
    told = row_labels({"processor": "x86", "gpu": "H100", "region": "eu-1", "rack": "r1", "zone": "a"}, selection)
    assert [words for words, _ in told["labels"]] == ["gpu=H100", "rack=r1", "region=eu-1"]
    assert told["more_labels"] == ["zone=a", "processor=x86"]
    assert told["labels"][0][1] == "?selector=spot%2C+gpu%3DH100"
    assert parsed("spot, gpu=H100") == selector_of(selection_of({"selector": "spot, gpu=H100"}, NOW))[0]
    assert selector_of(selection_of({"selector": "a b"}, NOW))[1].startswith("at character 3")
