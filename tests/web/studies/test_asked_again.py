"""The command asks for the very same study, whatever a shell would make of its words."""

import shlex
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.studies import KnobRange, StudyCreate
from tests.web.studies.measured_study import SPEC
from web.studies.asked_again import asked_again


def document_of(command: str) -> str:
    """What stands between the command's first line and its last."""
    first, *lines, last = command.split("\n")
    assert (first, last) == ("tailwright studies start --file - <<'STUDY'", "STUDY")
    return "\n".join(lines)


@given(st.text(max_size=40), st.integers(), st.booleans())
def test_what_it_sends_is_the_whole_of_what_was_asked_for(reason: str, seed: int, propose: bool) -> None:
    space = {"max_num_seqs": KnobRange(minimum=1, maximum=8), "quantization": KnobRange(choices=["none", "int8"])}
    spec = SPEC.model_copy(update={"reason": reason, "seed": seed, "propose_rollout": propose, "space": space})
    sent = document_of(asked_again(spec))
    assert StudyCreate.model_validate_json(sent) == spec
    assert "\nSTUDY\n" not in sent and "null" not in sent.split('"space"')[1].split("workload_s")[0]


@pytest.mark.parametrize("reason", ["$(id) `id` $HOME", "it's \"so\" \\ <<'STUDY'", "line\nSTUDY\nline", "ключ 🦊"])
def test_a_shell_takes_it_as_it_stands(reason: str) -> None:
    spec = SPEC.model_copy(update={"reason": reason})
    reads = shlex.join([sys.executable, "-c", "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"])
    script = asked_again(spec).replace("tailwright studies start --file -", reads, 1)
    answer = subprocess.run(["sh", "-c", script], capture_output=True, check=True)
    assert StudyCreate.model_validate_json(answer.stdout) == spec
