"""The first steps are told in their order, done ones as done, with commands that a shell takes as they stand."""

import shlex
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.first_steps import Place, Seen, first_steps
from controlplane.command.main import SUBCOMMANDS

SEEN = st.builds(Seen, st.booleans(), st.booleans(), st.booleans(), st.booleans())


@given(SEEN)
def test_what_is_measured_lacks_nothing(seen: Seen) -> None:
    done = {step.name.value: step.done for step in first_steps(Place("http://s"), seen)}
    assert list(done) == ["engine", "agent", "traffic"]
    assert done["traffic"] == seen.measured
    if seen.reported or seen.measured:
        assert done["engine"] and done["agent"], "a sender of another kind needs neither"


@given(st.text(min_size=1).filter(lambda text: "\0" not in text))
def test_each_command_is_one_of_ours_whatever_a_folder_is_called(name: str) -> None:
    place = Place("https://s:7300", enrolment_token_file=Path("/d", name), program="/opt/a b/tailwright")
    commands = [shlex.split(step.command) for step in first_steps(place, Seen())]
    assert [words[:2] for words in commands] == [[place.program, sub] for sub in ("engine", "agent", "traffic")]
    assert {words[1] for words in commands} <= set(SUBCOMMANDS)
    agent = commands[1]
    assert agent[agent.index("--enrolment-token-file") + 1] == str(place.enrolment_token_file)
    assert agent[agent.index("--server-url") + 1] == "https://s:7300"


def test_a_file_that_is_not_told_is_left_to_the_reader() -> None:
    agent = first_steps(Place("http://s"), Seen())[1].command
    assert "--enrolment-token-file FILE" in agent
