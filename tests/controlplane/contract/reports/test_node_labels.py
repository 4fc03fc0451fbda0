"""Labels of nodes: which are right, and what they are called in messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.changes.label_selector import parsed
from controlplane.contract.reports.node_labels import (
    MOST_LABELS,
    from_the_wire,
    on_the_wire,
    problem_of,
    problem_of_all,
    value_of,
)

right = st.dictionaries(
    st.sampled_from(["region", "zone", "host-type", "processor", "gpu", "team/rack", "x"]),
    st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._:/-]{0,61}[A-Za-z0-9])?", fullmatch=True),
)


@given(right)
def test_labels_come_over_the_wire_as_they_were(labels: dict[str, str]) -> None:
    assert problem_of_all(labels) is None
    assert from_the_wire({**on_the_wire(labels), "service.name": "x"}) == (labels, []) or any(
        "--" in value for value in labels.values()
    )


def test_known_ones_go_by_opentelemetrys_names() -> None:
    assert on_the_wire({"region": "eu-1", "zone": "a", "host-type": "p5", "rack": "r1"}) == {
        "cloud.region": "eu-1",
        "cloud.availability_zone": "a",
        "host.type": "p5",
        "tailwright.label.rack": "r1",
    }
    told = {"host.cpu.model.name": "AMD EPYC(TM) 9654", "cloud.region": "***"}
    assert from_the_wire(told) == ({"processor": "AMD-EPYC-TM-9654"}, []), "what others write is made a value"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("", "x", "'': a label's name is 1 to 63 of letters"),
        ("-a", "x", "'-a': a label's name"),
        ("a" * 64, "x", "a label's name is 1 to 63"),
        ("rack", "", "rack: a label's value is 1 to 63 of letters"),
        ("rack", "b c", "rack: a label's value"),
        ("rack", "b" * 64, "rack: a label's value"),
        ("pool", "chat", "pool: every node says it by itself, selectors may name it: leave out the label"),
        ("cloud.region", "eu-1", "cloud.region: the label is called region"),
    ],
)
def test_a_wrong_label_is_named_and_left_out_alone(name: str, value: str, said: str) -> None:
    assert said in str(problem_of(name, value))
    found, problems = from_the_wire({f"tailwright.label.{name}": value, "tailwright.label.ok": "1"})
    assert found == {"ok": "1"} and len(problems) == 1 and said in problems[0]


def test_a_node_has_so_many_at_most() -> None:
    many = {f"l{number:02}": "x" for number in range(MOST_LABELS + 2)}
    assert problem_of_all(many) == "at most 32 labels a node, got 34"
    found, problems = from_the_wire(on_the_wire(many))
    assert len(found) == MOST_LABELS and problems == ["labels: at most 32 labels a node: l32 is left out"]


@given(st.text(max_size=200))
def test_what_others_call_a_thing_can_be_a_label_and_be_selected(text: str) -> None:
    value = value_of(text)
    assert value == "" or problem_of("gpu", value) is None
    assert value == "" or parsed(f"gpu={value}").matches({"gpu": value})


def test_a_gpus_name_is_written_as_kubernetes_does() -> None:
    assert value_of("NVIDIA H100 80GB HBM3") == "NVIDIA-H100-80GB-HBM3"
    assert value_of("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz") == "Intel-R-Xeon-R-Platinum-8481C-CPU-2.70GHz"
