"""Each cause on both sides of its threshold, with its score, and the order in which they are told."""

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.alerts.diagnosis.causes import Context, causes
from controlplane.alerts.diagnosis.counted_ratio import Level
from controlplane.alerts.diagnosis.draft_causes import Drafts
from controlplane.contract.metrics import PROMPT_BUCKETS

ONSET = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
SHORT, LONG = PROMPT_BUCKETS[1], PROMPT_BUCKETS[4]


def found(**context: Any) -> list[tuple[str, float]]:
    return [(cause["cause"], round(cause["score"], 6)) for cause in causes(Context(**context), ONSET)]


def test_with_nothing_else_measured_it_is_unknown() -> None:
    assert found() == [("unknown", 0.0)]


class TestLoad:
    """10 requests a second before, looked at for 100 s: chance alone is 3 * sqrt(arrived * 100 s)."""

    def of(self, during: float | None, seconds: float = 100.0, before: float | None = 10.0, **more: Any) -> Any:
        return found(rate=Level(before, during), during_s=seconds, **more)

    def test_a_quarter_more_is_more(self) -> None:
        assert self.of(12.4) == [("unknown", 0.0)]
        assert self.of(12.5) == [("load", 0.4625)]

    def test_its_score_grows_with_it_up_to_a_bound(self) -> None:
        assert self.of(20.0) == [("load", 0.65)] and self.of(30.0) == self.of(300.0) == [("load", 0.9)]

    def test_a_few_more_within_a_short_time_are_chance(self) -> None:
        # 10 s: 50 more than expected, and chance brings 3 * sqrt(150) = 36.7; 6 s: 30 against 28.5; 5 s: 25 against 26.
        assert self.of(15.0, seconds=6.0) == [("load", 0.525)]
        assert self.of(15.0, seconds=5.0) == [("unknown", 0.0)]

    def test_what_was_not_measured_is_no_growth(self) -> None:
        assert self.of(None) == self.of(20.0, before=None) == self.of(20.0, before=0.0) == [("unknown", 0.0)]

    def test_those_that_came_and_were_not_served_count(self) -> None:
        assert self.of(10.0, backlog=Level(0.0, 240.0)) == [("unknown", 0.0)]
        assert self.of(10.0, backlog=Level(0.0, 250.0)) == [("load", 0.4625)]
        assert self.of(10.0, backlog=Level(250.0, 0.0)) == [("unknown", 0.0)]
        (load,) = causes(Context(rate=Level(10.0, 10.0), during_s=100.0, backlog=Level(50.0, 1050.0)), ONSET)
        assert (load["rate_before"], load["rate_during"], load["served_during"]) == (10.0, 20.0, 10.0)

    def test_it_tells_how_many_wait(self) -> None:
        (load,) = causes(Context(rate=Level(10.0, 20.0), during_s=100.0, waiting=Level(0.0, 7.0)), ONSET)
        assert load["message"].endswith("of which 20 were served; 7 requests wait on a node")


class TestWhoLoads:
    """From 10 to 20 requests a second within 100 s; what the tenant was and is of them."""

    def of(self, before: float, during: float, seconds: float = 100.0) -> list[str]:
        shares = ({"web": 1.0 - share, "batch": share} for share in (before, during))
        then, now = shares
        around = Context(rate=Level(10.0, 20.0), during_s=seconds, tenant_before=then, tenant_during=now)
        return [cause["cause"] for cause in causes(around, ONSET)]

    def test_who_sends_most_of_what_comes_more_goes_before_the_load(self) -> None:
        # 1 a second of it before; 9.0 of 20 are 8 of the 10 that came more.
        assert self.of(0.1, 0.455) == ["tenant_mix", "load"]
        assert self.of(0.1, 0.445) == ["load"]

    def test_a_tenant_that_grew_as_all_did_is_none(self) -> None:
        assert self.of(0.9, 0.9) == ["load"]

    def test_nor_one_that_chance_may_have_made_larger(self) -> None:
        # Of 80 requests: 3 * sqrt(0.85 * 0.15 / 80) = 0.12.
        assert self.of(0.8, 0.9, seconds=4.0) == ["load"]
        assert self.of(0.8, 0.9) == ["tenant_mix", "load"]

    def test_while_it_is_young_what_others_sent_more_may_be_chance(self) -> None:
        # 11.1 a second of the others, not 9: of 18 s 37.8 more, and chance brings 3 * sqrt(162) = 38.2.
        assert self.of(0.1, 0.445, seconds=18.0) == ["tenant_mix", "load"]
        assert self.of(0.1, 0.445, seconds=19.0) == ["load"]

    def test_it_is_named_with_its_shares(self) -> None:
        around = Context(
            rate=Level(10.0, 20.0), during_s=100.0, tenant_before={"a": 1.0}, tenant_during={"a": 0.5, "b": 0.5}
        )
        first = causes(around, ONSET)[0]
        assert (first["label"], first["value"], first["before_share"], first["during_share"]) == (
            "tenant",
            "b",
            0.0,
            0.5,
        )


class TestPromptMix:
    def of(self, long_before: float, long_during: float) -> list[tuple[str, float]]:
        return found(
            prompt_before={SHORT: 1 - long_before, LONG: long_before},
            prompt_during={SHORT: 1 - long_during, LONG: long_during},
        )

    def test_longer_prompts_from_15_per_cent_on(self) -> None:
        assert self.of(0.2, 0.34) == [("unknown", 0.0)]
        assert self.of(0.2, 0.36) == [("prompt_mix", 0.46)]
        assert self.of(0.0, 1.0) == [("prompt_mix", 0.8)]

    def test_it_is_told_by_how_much_more_there_is_to_compute(self) -> None:
        mixes = {"prompt_before": {"<=128": 0.5, "<=512": 0.5}, "prompt_during": {"<=512": 0.5, ">32k": 0.5}}
        (cause,) = causes(Context(**mixes), ONSET)
        assert cause["tokens_growth"] == pytest.approx((512 + 65536) / (128 + 512), abs=0.001)

    def test_shorter_ones_slow_nothing_down(self) -> None:
        assert self.of(0.6, 0.2) == [("unknown", 0.0)]

    def test_one_side_alone_says_nothing(self) -> None:
        assert found(prompt_during={LONG: 1.0}) == found(prompt_before={SHORT: 1.0}) == [("unknown", 0.0)]


class TestCache:
    def of(self, before: float, during: float) -> list[tuple[str, float]]:
        return found(cache_before={"hit": before, "miss": 1 - before}, cache_during={"hit": during, "miss": 1 - during})

    def test_hits_that_fall_by_15_per_cent(self) -> None:
        assert self.of(0.8, 0.66) == [("unknown", 0.0)]
        assert self.of(0.8, 0.64) == [("cache_miss", 0.46)]
        assert self.of(1.0, 0.0) == [("cache_miss", 0.8)]
        assert self.of(0.2, 0.9) == [("unknown", 0.0)]

    def test_one_side_alone_says_nothing(self) -> None:
        assert found(cache_before={"hit": 1.0}) == [("unknown", 0.0)]


@pytest.mark.parametrize(("requests", "is_told"), [(54.0, False), (57.0, True)])
def test_a_few_more_of_a_kind_within_a_short_time_are_chance(requests: float, is_told: bool) -> None:
    """0.2 more; 3 * sqrt(0.5 * 0.5 / 56.25) = 0.2."""
    around: dict[str, Any] = {"rate": Level(10.0, requests / 10.0), "during_s": 10.0}
    mix = found(prompt_before={SHORT: 0.6, LONG: 0.4}, prompt_during={SHORT: 0.4, LONG: 0.6}, **around)
    hits = found(cache_before={"hit": 0.6}, cache_during={"hit": 0.4}, **around)
    assert [name for name, _ in (*mix, *hits)] == (["prompt_mix", "cache_miss"] if is_told else ["unknown"] * 2)


class TestAnswerMix:
    """Answers of 100 tokens before; the difference is known to 10."""

    def of(self, during: float | None, error: float = 10.0, before: float | None = 100.0) -> Any:
        return found(answer_tokens=Level(before, during, error))

    def test_a_quarter_longer_is_longer(self) -> None:
        assert self.of(124.9, error=1.0) == [("unknown", 0.0)]
        assert self.of(125.0, error=1.0) == [("answer_mix", 0.4625)]

    def test_its_score_grows_with_it_up_to_a_bound(self) -> None:
        assert self.of(200.0) == [("answer_mix", 0.65)] and self.of(400.0) == self.of(900.0) == [("answer_mix", 0.8)]

    def test_what_may_be_chance_is_no_change(self) -> None:
        assert self.of(129.9) == [("unknown", 0.0)]
        assert self.of(130.0) == [("answer_mix", 0.475)]

    def test_what_is_not_told_has_not_changed(self) -> None:
        assert self.of(None) == self.of(200.0, before=None) == self.of(200.0, before=0.0) == [("unknown", 0.0)]

    def test_it_tells_both_lengths(self) -> None:
        (told,) = causes(Context(answer_tokens=Level(24.04, 253.2, 20.0)), ONSET)
        assert told["message"] == "answers got longer: 24 tokens in the mean, now 253"
        assert told["answer_tokens"] == [24.04, 253.2]


class TestMemory:
    def test_preemptions_that_doubled(self) -> None:
        assert found(preemptions=Level(0.1, 0.2)) == [("unknown", 0.0)]
        assert found(preemptions=Level(0.1, 0.21)) == [("preemption", 0.75)]

    def test_hardly_any_are_none(self) -> None:
        assert found(preemptions=Level(0.0, 0.02)) == [("unknown", 0.0)]
        assert found(preemptions=Level(None, 0.03)) == [("preemption", 0.75)]

    def test_a_few_within_a_short_time_are_chance(self) -> None:
        # Of nothing before: three of them; of one that was expected in as long: three more.
        assert found(preemptions=Level(0.0, 0.0999), during_s=30.0) == [("unknown", 0.0)]
        assert found(preemptions=Level(0.0, 0.1), during_s=30.0) == [("preemption", 0.75)]
        assert found(preemptions=Level(0.1, 0.39), during_s=10.0) == [("unknown", 0.0)]
        assert found(preemptions=Level(0.1, 0.41), during_s=10.0) == [("preemption", 0.75)]

    def test_a_cache_that_has_become_full(self) -> None:
        assert found(kv_usage=Level(0.5, 0.89)) == [("unknown", 0.0)]
        assert found(kv_usage=Level(0.5, 0.9)) == found(kv_usage=Level(None, 0.95)) == [("kv_pressure", 0.5)]
        assert found(kv_usage=Level(0.95, 0.99)) == [("unknown", 0.0)]


class TestOneNode:
    def test_seven_tenths_of_the_growth(self) -> None:
        assert found(node_growth_s={"a": 0.69, "b": 0.31}) == [("unknown", 0.0)]
        assert found(node_growth_s={"a": 0.70, "b": 0.30}) == [("one_node", 0.7)]

    def test_nodes_that_got_faster_take_nothing_away(self) -> None:
        assert found(node_growth_s={"a": 0.6, "b": 0.4, "c": -5.0}) == [("unknown", 0.0)]

    def test_of_one_there_is_no_other(self) -> None:
        assert found(node_growth_s={"a": 1.0}) == found(node_growth_s={"a": 0.0, "b": 0.0}) == [("unknown", 0.0)]


@pytest.mark.parametrize(("growth", "order"), [(1.5, ["one_node", "load"]), (2.5, ["load", "one_node"])])
def test_the_likeliest_comes_first(growth: float, order: list[str]) -> None:
    several = found(rate=Level(10.0, 10.0 * growth), during_s=100.0, node_growth_s={"a": 1.0, "b": 0.0})
    assert [cause for cause, _ in several] == order
    assert all(math.isfinite(score) and 0.0 <= score <= 1.0 for _, score in several)


def test_a_kind_of_prompts_that_was_not_there_before_is_a_change_of_the_mix() -> None:
    assert found(prompt_before={SHORT: 1.0}, prompt_during={SHORT: 0.7, LONG: 0.3}) == [("prompt_mix", 0.6)]


class TestAcceptance:
    def test_drafts_that_are_accepted_less_from_15_per_cent_on(self) -> None:
        assert found(drafts=Drafts(accepted=Level(0.6, 0.46))) == [("unknown", 0.0)]
        assert found(drafts=Drafts(accepted=Level(0.6, 0.44))) == [("acceptance", 0.78)]

    def test_as_few_requests_may_have_made_it_by_chance_they_say_nothing(self) -> None:
        assert found(drafts=Drafts(accepted=Level(0.6, 0.3, 0.11))) == [("unknown", 0.0)]
        assert found(drafts=Drafts(accepted=Level(0.6, 0.3, 0.09))) == [("acceptance", 0.78)]

    def test_drafts_that_give_fewer_of_the_tokens_so_that_an_answer_takes_a_quarter_more_steps(self) -> None:
        assert found(drafts=Drafts(given=Level(0.4, 0.26))) == [("unknown", 0.0)]
        assert found(drafts=Drafts(given=Level(0.4, 0.24))) == [("acceptance", 0.78)]
        assert found(drafts=Drafts(given=Level(0.4, 0.1, 0.11))) == [("unknown", 0.0)]
        assert (
            found(drafts=Drafts(given=Level(0.0, 0.0)))
            == found(drafts=Drafts(given=Level(0.0, 0.2)))
            == [("unknown", 0.0)]
        )

    def test_where_more_work_takes_their_room_that_they_give_less_is_no_cause(self) -> None:
        more = {"rate": Level(10.0, 20.0), "during_s": 100.0}
        longer = {"prompt_before": {SHORT: 1.0}, "prompt_during": {SHORT: 0.5, LONG: 0.5}}
        for work in (more, longer):
            without = [cause for cause, _ in found(**work)]
            assert [cause for cause, _ in found(drafts=Drafts(given=Level(0.4, 0.1)), **work)] == without
            assert ("acceptance", 0.78) in found(drafts=Drafts(accepted=Level(0.6, 0.3)), **work)

    def test_both_are_told(self) -> None:
        (cause,) = causes(Context(drafts=Drafts(Level(0.8, 0.4), Level(0.4, 0.02))), ONSET)
        assert cause["message"] == (
            "drafts gave 2 % of the tokens, 40 % before; of the draft tokens 40 % were accepted, 80 % before"
        )
