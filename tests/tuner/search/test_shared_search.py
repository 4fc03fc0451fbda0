"""A search among several: what others measure is not proposed again, what they measured is known, whoever asks."""

from typing import Any

from controlplane.contract.knobs import EngineConfig, canonical_json
from tuner.search.objective import Assessment
from tuner.search.search import Candidate, Outcome, Search
from tuner.search.space import Capabilities, build_space

DEFAULT = EngineConfig(max_num_batched_tokens=24).knobs()
SPACE = build_space({}, DEFAULT, Capabilities())


def _search(trials: int = 12) -> Search:
    return Search(SPACE, DEFAULT, constraints=["itl:0.99"], max_trials=trials)


def _measured(knobs: dict[str, Any]) -> Assessment:
    tokens, drafts = knobs["max_num_batched_tokens"], knobs["num_speculative_tokens"]
    return Assessment(0.1 + 10.0 / tokens + 0.01 * abs(drafts - 3), {"itl:0.99": tokens / 900 - 1.0})


def _asked(search: Search) -> Candidate:
    found = search.ask()
    assert found is not None
    return found


def test_asked_at_the_same_time_no_two_are_alike_and_each_has_a_number_of_its_own() -> None:
    search, outcomes = _search(), [Outcome(0, DEFAULT, _measured(DEFAULT))]
    for number in range(1, 5):
        search.catch_up(outcomes, {})
        knobs = _asked(search).knobs
        outcomes.append(Outcome(number, knobs, _measured(knobs)))
    pending: dict[int, dict[str, Any]] = {}
    for number in range(5, 9):
        search.catch_up(outcomes, pending)
        candidate = _asked(search)
        assert candidate.number == number and search.waits is bool(pending)
        pending[number] = candidate.knobs
    begun = [canonical_json(knobs) for knobs in (*(one.knobs for one in outcomes), *pending.values())]
    assert len(set(begun)) >= len(begun) - 1, "the incumbent alone is measured again"


def test_what_others_measure_pushes_the_next_away_and_is_no_evidence() -> None:
    outcomes = [Outcome(0, DEFAULT, _measured(DEFAULT))]
    search = _search()
    for number in range(1, 5):
        search.catch_up(outcomes, {})
        knobs = _asked(search).knobs
        outcomes.append(Outcome(number, knobs, _measured(knobs)))
    search.catch_up(outcomes, {})
    alone, best, finalists = _asked(search), search.best(), search.finalists(3)
    search.catch_up(outcomes, {5: alone.knobs})
    assert _asked(search).knobs != alone.knobs
    assert (search.best(), search.finalists(3)) == (best, finalists)


def test_while_the_default_is_measured_first_points_are_and_then_nothing() -> None:
    search = _search()
    pending = {0: DEFAULT}
    while True:
        search.catch_up([], pending)
        found = search.ask()
        if found is None:
            break
        pending[found.number] = found.knobs
    assert 3 <= len(pending) <= 4 and search.waits and not search.why_over()


def test_what_is_under_way_counts_towards_the_most() -> None:
    search = _search(trials=3)
    other = DEFAULT | {"max_num_batched_tokens": 128}
    search.catch_up([Outcome(0, DEFAULT, _measured(DEFAULT))], {1: other})
    assert _asked(search).number == 2
    search.catch_up([], {1: other, 2: DEFAULT})
    assert search.ask() is None and search.why_over() == "3 trials measured"


def test_gone_on_with_a_search_proposes_what_it_would_have() -> None:
    whole = _search()
    for _ in range(6):
        candidate = _asked(whole)
        whole.tell(candidate, _measured(candidate.knobs))
        again = _search()
        again.catch_up(whole.outcomes, {})
        assert again.ask() == whole.ask()
