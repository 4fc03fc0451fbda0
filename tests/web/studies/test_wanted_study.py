"""The form of a new study: read as the API takes it, and each field that is wrong told at once."""

import pytest

from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import KnobRange, StudyCreate
from controlplane.contract.errors import BadRequest, Conflict
from controlplane.contract.planning.online_mode import OnlineMode
from web.studies.wanted_study import knob_range, problems_of, wanted_study

SAID = {"pool": "chat", "objective": "e2e"}


def test_what_is_left_empty_is_not_said() -> None:
    study = wanted_study({**SAID, "reason": " ", "winner": ""}).study
    assert study is not None
    assert study.model_fields_set == {"pool", "objective"}
    assert study == StudyCreate(pool="chat")


def test_a_whole_form_is_read() -> None:
    first = {
        "objective": "ttft",
        "objective_q": "p99",
        "max_trials": "30",
        "max_duration_s": "2h",
        "winner": "automatic",
    }
    space = {"max_num_seqs": "16 to 128 log", "quantization": "none, int8", "seed": "7"}
    suggested = "max_num_seqs=64, quantization=int8\n\nnum_speculative_tokens=4: 2, 16: 1; max_num_seqs=32"
    finish = {"max_lost_share": "5 %", "least_agreement": "0.8", "finalists": "2", "finalist_repeats": "4"}
    traffic = {"workload_s": "10m", "trial_requests": "200", "max_duration_s": "2h", "reason": "tails"}
    how = {"canary": "10 %", "stages": "rising", "soak": "10m", "undecided": "hold", "approval": "yes"}
    read = wanted_study(
        {**SAID, **first, **space, **finish, **traffic, **how, "suggested": suggested, "reason": "tails"}
    )
    study = read.study
    assert study is not None and read.problems == {}
    assert (study.objective, study.objective_q, study.max_trials, study.max_duration_s) == ("ttft", 0.99, 30, 7200)
    assert (study.propose_rollout, study.auto_start_rollout, study.reason) == (True, True, "tails")
    sent = study.model_dump(mode="json")
    assert sent["space"]["max_num_seqs"] == {"minimum": 16, "maximum": 128, "log": True, "choices": None}
    assert sent["space"]["quantization"]["choices"] == ["none", "int8"]
    assert sent["suggested"] == [
        {"max_num_seqs": 64, "quantization": "int8"},
        {"num_speculative_tokens": [[4, 2], [16, 1]], "max_num_seqs": 32},
    ]
    assert (study.max_lost_share, study.least_agreement, study.finalists, study.finalist_repeats) == (0.05, 0.8, 2, 4)
    assert (study.workload_s, study.trial_requests, study.seed) == (600, 200, 7)
    assert set(study.rollout) == {"canary_share", "stages", "soak_s", "on_inconclusive", "wants_approval"}
    assert study.rollout["stages"][1] == {"share": 0.1}


def test_a_uses_limits_stand_beside_the_teams_own() -> None:
    study = wanted_study({**SAID, "profile": "chat", "constraints": "ttft p95 600ms\ntpot p50 <= 50ms"}).study
    assert study is not None
    assert study.constraints == [
        Limit(metric="ttft", q=0.95, limit_s=0.6),
        Limit(metric="tpot", q=0.5, limit_s=0.05),
        Limit(metric="itl", q=0.99, limit_s=0.2),
    ]


def test_a_winner_may_be_told_alone() -> None:
    study = wanted_study({**SAID, "winner": "told"}).study
    assert study is not None and (study.propose_rollout, study.auto_start_rollout) == (False, False)


def test_all_that_is_wrong_is_told_at_once() -> None:
    unread = {"seed": "x", "max_num_seqs": "128 to 2", "quantization": "int9", "suggested": "max_num_seq=3"}
    wrong = {"max_trials": "2", "workload_s": "1s", "tolerance": "much", "profile": "poetry", "winner": "sold"}
    read = wanted_study({**unread, **wrong, "objective_q": "p100"})
    assert read.study is None
    assert set(read.problems) == {"pool", "objective_q", *unread, *wrong}
    assert list(read.problems)[:3] == ["pool", "objective_q", "profile"]
    assert read.problems["max_num_seqs"] == "128 is above the maximum 2"
    assert read.problems["suggested"] == "line 1: no knob 'max_num_seq', did you mean 'max_num_seqs'?"
    assert read.problems["max_trials"] == "Input should be greater than or equal to 3"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"constraints": "speed p95 1s"}, "not 'speed'"),
        ({"constraints": "ttft p95 0s"}, "limit_s: Input should be greater than 0"),
        ({"constraints": "ttft under a second"}, "wants metric, quantile, limit"),
        ({"objective": "speed"}, "not 'speed'"),
        ({"suggested": "max_num_seqs=64\nquantization int8"}, "line 2: 'quantization int8' wants to be knob=value"),
        ({"suggested": "max_num_seqs=99999"}, "line 1: max_num_seqs: 99999 is outside 1 to 4096"),
        ({"suggested": "\n".join(["max_num_seqs=64"] * 33)}, "at most 32 items"),
    ],
)
def test_what_is_wrong_stands_at_its_field(said: dict[str, str], problem: str) -> None:
    found = wanted_study({**SAID, **said}).problems
    assert list(found) == list(said) and problem in next(iter(found.values()))


def test_quality_may_be_held_to_limits_of_ones_own() -> None:
    own = {"most_logprob_drop": "0.02", "evaluation": "mmlu", "evaluation_margin": "0.5"}
    study = wanted_study({**SAID, **own}).study
    assert study is not None and (study.most_logprob_drop, study.evaluation) == (0.02, "mmlu")
    assert study.evaluation_margin == 0.5
    found = wanted_study({**SAID, "evaluation": "; rm -rf /", "most_logprob_drop": "-1"}).problems
    assert set(found) == {"evaluation", "most_logprob_drop"}


def test_further_objectives_have_a_line_each() -> None:
    asked = {**SAID, "also": "tpot p50\n\ngoodput", "also_tolerance": "20 %", "profile": "chat"}
    found = wanted_study({**asked, "node_hour_price": "2.5", "currency": "EUR"}).study
    assert found is not None and [one.name for one in found.also] == ["tpot:0.5", "goodput"]
    assert (found.also_tolerance, found.node_hour_price, found.currency) == (0.2, 2.5, "EUR")
    for wrong in ("tpot p50 p90", "tpot 50 %", "queue", "tpot p50\ntpot p50", "a\nb\nc"):
        assert set(wanted_study({**asked, "also": wrong}).problems) == {"also"}, wrong
    assert set(wanted_study({**asked, "node_hour_price": "2"}).problems) == {"currency"}


def test_goodput_wants_limits() -> None:
    assert "none is given" in wanted_study({**SAID, "objective": "goodput"}).problems["constraints"]
    found = wanted_study({**SAID, "objective": "goodput", "profile": "chat", "load": "2"}).study
    assert found is not None and (found.objective, found.load, len(found.constraints)) == ("goodput", 2.0, 2)


def test_the_largest_load_wants_limits_and_says_how_many_replays() -> None:
    assert "none is given" in wanted_study({**SAID, "objective": "max_load"}).problems["constraints"]
    found = wanted_study({**SAID, "objective": "max_load", "profile": "chat", "load_replays": "9"}).study
    assert found is not None and (found.objective, found.replays, found.held) == ("max_load", 9, [])


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("max_num_seqs", "16..128", KnobRange(minimum=16, maximum=128)),
        ("max_num_seqs", "16-128 log", KnobRange(minimum=16, maximum=128, log=True)),
        ("max_num_seqs", "16, 32", KnobRange(choices=[16, 32])),
        ("num_speculative_tokens", "0, 2", KnobRange(choices=[0, 2])),
        ("num_speculative_tokens", "2; 4: 2, 16: 1", KnobRange(choices=[2, ((4, 2), (16, 1))])),
        ("num_speculative_tokens", "4: 2, 16: 1", KnobRange(choices=[((4, 2), (16, 1))])),
    ],
)
def test_a_range_is_bounds_or_values(name: str, text: str, found: KnobRange) -> None:
    assert knob_range(text, name) == found


@pytest.mark.parametrize("text", ["0 to 9", "9 to 1", "1 to 99999", ",", "many", "-1", "0 to 4 log"])
def test_a_range_that_a_knob_cannot_take_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        knob_range(text, "max_num_seqs")


@pytest.mark.parametrize(
    ("error", "problems"),
    [
        (BadRequest("pool: 'chat' has no serving nodes", field="pool"), {"pool": "'chat' has no serving nodes"}),
        (BadRequest("space.max_num_seqs.minimum: 9", field="space.max_num_seqs.minimum"), {"max_num_seqs": "9"}),
        (BadRequest("constraints[0].metric: no", field="constraints[0].metric"), {"constraints": "no"}),
        (BadRequest("rollout.soak_s: long", field="rollout.soak_s"), {"soak": "long"}),
        (Conflict("not now", field="state"), {"": "not now"}),
    ],
)
def test_what_the_api_refuses_stands_at_the_forms_field(error: Conflict, problems: dict[str, str]) -> None:
    assert problems_of(error) == problems


def test_knobs_that_nodes_declare_have_a_field_together() -> None:
    study = wanted_study({**SAID, "declared": "block_size = 16, 32", "max_num_seqs": "8, 16"}).study
    assert study is not None
    assert study.space == {"max_num_seqs": KnobRange(choices=[8, 16]), "block_size": KnobRange(choices=[16, 32])}
    assert list(wanted_study({**SAID, "declared": "block_size"}).problems) == ["declared"]
    assert problems_of(BadRequest("space.kv: no", field="space.kv")) == {"declared": "no"}


def test_careful_in_production_is_read_with_its_hours() -> None:
    where = {"where": "online", "online_step": "1.5", "online_taken_back": "2", "online_days": "tue to wed"}
    clock = {"online_opens": "22:00", "online_closes": "06:00", "online_zone": "Europe/London"}
    study = wanted_study({**SAID, **where, **clock}).study
    assert study is not None and study.online is not None and study.online.hours is not None
    assert (study.online.step, study.online.max_taken_back, study.max_duration_s) == (1.5, 2, 86400)
    assert study.online.hours.model_dump(mode="json") == {
        "days": ["tue", "wed"],
        "opens": "22:00",
        "closes": "06:00",
        "zone": "Europe/London",
    }
    usual = wanted_study({**SAID, "where": "online"}).study
    assert usual is not None and usual.online == OnlineMode()


@pytest.mark.parametrize(
    ("said", "field", "why"),
    [
        ({"where": "", "online_step": "1.5"}, "online_step", "is of a study in production"),
        ({"where": "moon"}, "where", "wants one of those"),
        ({"where": "online", "online_step": "9"}, "online_step", "less than or equal to 4"),
        ({"where": "online", "online_step": "much"}, "online_step", "wants a number"),
        ({"where": "online", "online_taken_back": "0"}, "online_taken_back", "greater than or equal to 1"),
        ({"where": "online", "online_zone": "UTC"}, "online_opens", "Field required"),
        ({"where": "online", "online_opens": "9", "online_closes": "10:00"}, "online_opens", "match pattern"),
        ({"where": "online", "online_days": "moonday"}, "online_days", "is no day"),
        ({"where": "online", "load": "2"}, "load", "nothing is replayed"),
        ({"where": "online", "objective": "goodput", "constraints": "ttft p95 1s"}, "objective", "wants replays"),
        ({"where": "online", "undecided": "hold"}, "undecided", "says this itself"),
    ],
)
def test_what_is_wrong_in_production_is_told_at_its_field(said: dict[str, str], field: str, why: str) -> None:
    read = wanted_study({**SAID, **said})
    assert read.study is None and why in read.problems[field]
