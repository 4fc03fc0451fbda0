"""Every field of a body can be said on a command line, in the contract's own words."""

from typing import Any

import pytest
import typer
from pydantic import BaseModel
from typer.testing import CliRunner

from controlplane.command import rollout
from controlplane.command.nouns import study_commands
from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.terminal.bodies.contract_options import ContractOptions, body_of
from controlplane.terminal.bodies.rollout_options import with_rollout_fields
from controlplane.terminal.studies.study_options import with_study_fields

OTHERWISE = {
    "StudyCreate": {"constraints": "constraint", "max_trials": "trials", "objective_q": "objective"},
    "RolloutCreate": {"max_blast": "max_nodes", "profile": "slo"},
}
"""Options that are called otherwise than their field."""


def options(app: typer.Typer) -> dict[str | None, Any]:
    group: Any = typer.main.get_command(app)
    return {parameter.name: parameter for parameter in group.commands["start"].params}


@pytest.mark.parametrize(
    ("app", "body", "fields"),
    [(study_commands.app, StudyCreate, with_study_fields), (rollout.app, RolloutCreate, with_rollout_fields)],
)
def test_each_field_of_the_contract_is_an_option(
    app: typer.Typer, body: type[BaseModel], fields: ContractOptions
) -> None:
    found = options(app)
    assert set(fields.by_command) <= set(body.model_fields)
    assert {OTHERWISE[body.__name__].get(name, name) for name in body.model_fields} <= set(found)
    assert all(found[name].default is None for name in body.model_fields if name not in fields.by_command)


def test_an_option_says_what_its_field_is_and_its_default() -> None:
    found = options(study_commands.app)
    assert found["load_replays"].opts == ["--load-replays"]
    assert found["load_replays"].help == (
        "Replays of a trial at most, each at another load, where an objective is max_load or cost.  [default: 7]"
    )
    assert found["propose_rollout"].secondary_opts == ["--no-propose-rollout"]
    assert "[default: yes]" in found["propose_rollout"].help and "repeatable" in found["space"].help


def test_a_field_with_few_values_takes_only_these() -> None:
    found = CliRunner().invoke(rollout.app, ["start", "--on-inconclusive", "perhaps"])
    assert found.exit_code == 2 and "'hold', 'roll_back'" in found.output
    assert options(rollout.app)["metrics"].help.endswith("[default: ttft,tpot,e2e,itl]")


def test_values_that_a_body_cannot_have_are_told_by_their_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        body_of(RolloutCreate, {"pool": "p", "revision": "new", "canary_share": 0.9}, {"revision": "REVISION"})
    said = capsys.readouterr().err
    assert "--canary-share: Input should be less than" in said and "REVISION: Input should be a valid integer" in said
