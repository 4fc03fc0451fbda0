"""What happened, in order, each thing once."""

from collections.abc import Callable
from datetime import timedelta

from controlplane.contract.bodies.alerts import Alert, AlertUpdate, UpdateKind
from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.bodies.remedies import RemedyAction, RemedyState, RemedyStep
from controlplane.contract.on_call.incidents import IncidentNote, TimelineKind
from controlplane.incidents.timeline import Telling, timeline
from tests.controlplane.incidents.conftest import START


def at(seconds: float):  # type: ignore[no-untyped-def]
    return START + timedelta(seconds=seconds)


def entry(seconds: float, kind: str, message: str = "m") -> LedgerEntry:
    return LedgerEntry(id=1, time=at(seconds), actor="ada", kind=kind, subject="incident/1", message=message)


def test_everything_stands_in_it_in_order(alert: Callable[..., Alert]) -> None:
    made = alert(1, ended_s=300)
    made.updates = [AlertUpdate(time=at(60), kinds=[UpdateKind.GREW], summary="it grew")]
    step = RemedyStep(
        time=at(11), action=RemedyAction.ROLL_BACK, state=RemedyState.STARTED, cause="config_change", why="because"
    )
    made.remedies = [step]
    found = timeline(
        [made],
        [Telling(at(12), 1, "on-call", "firing"), Telling(at(13), 1, "mail", "firing", "503")],
        [IncidentNote(id=1, time=at(90), author="ada", text="looking")],
        [
            entry(10, "incident.opened"),
            entry(70, "incident.acknowledged"),
            entry(80, "rollout.promoted"),
            entry(81, "incident.noted"),
            entry(600, "incident.resolved"),
        ],
    )
    assert [each.kind.value for each in found] == [
        *("onset", "fired", "opened", "remedy", "sent", "not_sent", "updated", "acknowledged"),
        *("change", "note", "over", "resolved"),
    ]
    told = {each.kind.value: each.text for each in found}
    assert told["sent"] == "on-call was told that it is firing"
    assert told["not_sent"] == "mail could not be told that it is firing: 503"
    assert told["note"] == "looking", "a note stands in its row; the ledger's word of it is left out"


def test_who_was_told_the_same_at_once_stands_in_one_entry() -> None:
    tellings = [
        Telling(at(12), 1, "pager", "firing"),
        Telling(at(14), 1, "mail", "firing"),
        Telling(at(13), 1, "chat", "firing"),
        Telling(at(13), 2, "chat", "firing"),
        Telling(at(14), 1, "hook", "firing", "503"),
        Telling(at(15), 1, "pager", "firing"),
        Telling(at(26), 1, "hook", "firing"),
        Telling(at(27), 1, "mail", "resolved"),
    ]
    assert [(each.time, each.subject, each.text) for each in timeline([], tellings, [], [])] == [
        (at(12), "alert/1", "pager, chat, mail were told that it is firing"),
        (at(13), "alert/2", "chat was told that it is firing"),
        (at(14), "alert/1", "hook could not be told that it is firing: 503"),
        (at(15), "alert/1", "pager was told that it is firing"),
        (at(26), "alert/1", "hook was told that it is firing"),
        (at(27), "alert/1", "mail was told that it is resolved"),
    ]


def test_a_step_in_production_that_the_incident_took_back_is_in_it() -> None:
    told = "study 7, step 2 in production (max_num_seqs from 4 to 8) is taken back: incident 1 of pool chat is open"
    (only,) = timeline([], [], [], [entry(5, "study.step_taken_back", told)])
    assert (only.kind, only.text, only.subject) == (TimelineKind.CHANGE, told, "incident/1")


def test_what_was_told_before_it_was_silenced_is_not_said_to_have_been_held_back(alert: Callable[..., Alert]) -> None:
    made = alert(1, silenced=True)
    made.held_by = "silence 4 until 2030-01-01 14:00 UTC: a drill"

    def fired(*tellings: Telling) -> str:
        return next(one.text for one in timeline([made], tellings, [], []) if one.kind is TimelineKind.FIRED)

    assert fired(Telling(at(12), 1, "on-call", "firing")) == made.summary
    held = f"{made.summary} (nobody was told: silence 4 until 2030-01-01 14:00 UTC: a drill)"
    assert fired() == fired(Telling(at(12), 2, "on-call", "firing")) == held
