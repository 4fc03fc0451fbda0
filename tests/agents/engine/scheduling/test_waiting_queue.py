"""The queue against a list that is searched."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.policy import Policy, SchedulingPolicy
from agents.engine.scheduling.request import Request
from agents.engine.scheduling.waiting_queue import WaitingQueue

POLICY = Policy(
    scheduling_policy=SchedulingPolicy.PRIORITY, priority_aging_s=2.0, long_prompt_threshold=4, long_patience_s=3.0
)
arrivals = st.tuples(st.integers(1, 8), st.integers(-2, 2), st.booleans())  # length, priority, has begun


def _sequence(order: int, length: int, priority: int, begun: bool) -> Request:
    request = Request(str(order), [1] * length, SamplingParams(1), priority=priority, arrived_at=float(order))
    request.order = order
    request.urgency = POLICY.urgency(request.arrived_at, priority)
    request.is_long = POLICY.is_long(length)
    request.rank = POLICY.rank(request.urgency, request.is_long, order)
    request.scheduled_at = 1.0 if begun else None
    return request


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.one_of(arrivals, st.integers(0, 30))))
def test_it_finds_what_a_search_would(acted: list[tuple[int, int, bool] | int]) -> None:
    queue = WaitingQueue(POLICY)
    model: list[Request] = []
    for order, action in enumerate(acted):
        if not isinstance(action, int):
            request = _sequence(order, *action)
            queue.add(request)
            model.append(request)
        elif model:
            gone = model.pop(action % len(model))
            queue.remove(gone)
            assert gone not in queue
        model.sort(key=lambda request: request.rank)
        assert list(queue) == model and len(queue) == len(model)
        assert queue.tokens == sum(len(request.tokens) for request in model)
        assert queue.has_begun == any(request.scheduled_at is not None for request in model)
        for new in (True, False):
            for long in (True, False):
                fitting = [s for s in model if (new or s.scheduled_at) and (long or len(s.tokens) <= 4)]
                assert queue.next(new=new, long=long) is (fitting[0] if fitting else None)
        unbegun = [request for request in model if request.scheduled_at is None]
        assert queue.least_urgent() is max(unbegun, key=lambda s: (s.urgency, s.order), default=None)
        for priority in (-1, 2):
            for length in (3, 5):
                ahead = [s for s in model if s.priority <= priority and (length > 4 or len(s.tokens) <= 4)]
                assert queue.ahead(priority, length) == (len(ahead), sum(len(s.tokens) for s in ahead))
        assert queue.has_less_urgent(0) == any(request.priority > 0 for request in model)
