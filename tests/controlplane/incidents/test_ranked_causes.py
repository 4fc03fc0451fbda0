"""One list of causes from several alerts' diagnoses."""

from collections.abc import Callable

from controlplane.contract.bodies.alerts import Alert
from controlplane.incidents.ranked_causes import ranked_causes


def cause(name: str, score: float, **more: object) -> dict[str, object]:
    return {"cause": name, "score": score, "message": name, **more}


def test_a_cause_stands_once_by_its_best_evidence(alert: Callable[..., Alert]) -> None:
    one = alert(1, causes=[cause("load", 0.5), cause("config_change", 0.4, revision=2)])
    two = alert(2, causes=[cause("config_change", 0.9, revision=2), cause("config_change", 0.3, revision=3)])
    found = ranked_causes([one, two, alert(3)])
    assert [(each["cause"], each["score"], each["alerts"]) for each in found] == [
        ("config_change", 0.9, [1, 2]),
        ("load", 0.5, [1]),
        ("config_change", 0.3, [2]),
    ]


def test_that_nothing_was_found_is_said_only_where_nothing_was(alert: Callable[..., Alert]) -> None:
    unknown = alert(1, causes=[cause("unknown", 0.0)])
    assert [each["cause"] for each in ranked_causes([unknown])] == ["unknown"]
    assert [each["cause"] for each in ranked_causes([unknown, alert(2, causes=[cause("load", 0.4)])])] == ["load"]


def test_who_brought_a_load_goes_before_it(alert: Callable[..., Alert]) -> None:
    one = alert(1, causes=[cause("tenant_mix", 0.7), cause("load", 0.7)])
    found = ranked_causes([one, alert(2, causes=[cause("load", 0.6)])])
    assert [each["cause"] for each in found] == ["tenant_mix", "load"]


def test_a_mark_of_others_goes_behind_what_another_alert_measured(alert: Callable[..., Alert]) -> None:
    one = alert(1, causes=[cause("change_event", 0.69, score_alone=0.69)])
    two = alert(2, causes=[cause("one_node", 0.6, share_explained=0.9), cause("change_event", 0.06, score_alone=0.65)])
    found = ranked_causes([one, two])
    assert [(each["cause"], each["score"]) for each in found] == [("one_node", 0.6), ("change_event", 0.069)]
