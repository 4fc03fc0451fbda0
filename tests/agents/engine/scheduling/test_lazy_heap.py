"""The heap against a sorted list."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.scheduling.lazy_heap import LazyHeap

actions = st.lists(st.tuples(st.sampled_from(["push", "discard", "pop"]), st.integers(0, 8), st.integers(0, 5)))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(actions)
def test_it_gives_what_a_sorted_list_would(acted: list[tuple[str, int, int]]) -> None:
    heap: LazyHeap[int] = LazyHeap()
    model: list[tuple[int, int, int]] = []  # (key, when, item)
    for when, (action, item, key) in enumerate(acted):
        inside = any(other == item for _, _, other in model)
        if action == "push" and not inside:
            heap.push(key, item)
            model = sorted([*model, (key, when, item)])
        elif action == "discard":
            assert heap.discard(item) == inside
            model = [entry for entry in model if entry[2] != item]
        elif action == "pop" and model:
            assert heap.first() == model[0][2]
            assert heap.discard(model.pop(0)[2])
        assert heap.first() == (model[0][2] if model else None)
        assert heap.first_key() == (model[0][0] if model else None)
        assert len(heap) == len(model) and set(heap) == {item for _, _, item in model}
        assert all(item in heap for _, _, item in model)


def test_what_was_taken_out_does_not_pile_up() -> None:
    heap: LazyHeap[int] = LazyHeap()
    heap.push(-1, -1)  # Never leaves, so that nothing below it comes to the top.
    for item in range(10_000):
        heap.push(item, item)
        heap.discard(item)
    assert len(heap) == 1
    assert len(heap._heap) < 50
