"""Kept prompts, as the typed client calls them: encrypted at rest, read by who may operate; and hostile hands."""

import base64
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from sqlmodel import Session, select

from controlplane.client import Client
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.bodies.workload import PromptSetCreate
from controlplane.contract.errors import BadRequest, Conflict, Forbidden, NotFound
from controlplane.contract.planning.packed_prompts import LARGEST_BYTES, Prompt, packed_prompts, unpacked_prompts
from controlplane.db.database import Database
from controlplane.studies.prompt_sets import prompt_set_store
from controlplane.studies.prompt_sets.prompt_set_checks import MOST
from controlplane.studies.tables import PromptSetRow

Make = Callable[[Scope], Client]
MADE = [Prompt(f"Where is order {place}?", 20 + place if place % 2 else None) for place in range(12)]
SUPPORT = PromptSetCreate(name="support", prompts=packed_prompts(MADE))


def test_prompts_are_kept_told_of_and_forgotten(client: Make) -> None:
    person, reader = client(Scope.OPERATE), client(Scope.READ)
    made = person.add_prompt_set(SUPPORT)
    assert (made.name, made.created_by, made.packed_bytes) == ("support", "operate", len(SUPPORT.prompts))
    assert (made.figures.prompts, made.figures.with_max_tokens, made.figures.characters["p50"]) == (12, 6, 17)
    assert reader.prompt_sets() == [made] and reader.prompt_set("support") == made
    text = person.prompt_set_text("support")
    assert text.id == made.id and unpacked_prompts(text.prompts) == MADE
    with pytest.raises(Conflict, match="kept already"):
        person.add_prompt_set(SUPPORT)
    for forbidden in (
        lambda: reader.prompt_set_text("support"),
        lambda: reader.add_prompt_set(SUPPORT),
        lambda: reader.remove_prompt_set("support"),
    ):
        with pytest.raises(Forbidden):
            forbidden()
    person.remove_prompt_set("support")
    assert reader.prompt_sets() == []
    for gone in (person.prompt_set, person.prompt_set_text, person.remove_prompt_set):
        with pytest.raises(NotFound, match="no prompt set 'support'"):
            gone("support")
    assert person.add_prompt_set(SUPPORT).id > made.id, "another set of the name is another set"


def test_nothing_of_the_text_stands_in_the_database(client: Make, database: Database) -> None:
    client(Scope.OPERATE).add_prompt_set(SUPPORT)
    with Session(database.engine) as session:
        (row,) = session.exec(select(PromptSetRow)).all()
        assert row.prompts is not None and row.prompts.startswith("v1.") and SUPPORT.prompts[8:60] not in row.prompts
        assert "order" not in json.dumps(row.figures)


def test_there_are_only_so_many(client: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_set_store, "MOST_KEPT", 1)
    person = client(Scope.OPERATE)
    person.add_prompt_set(SUPPORT)
    with pytest.raises(Conflict, match="1 prompt sets are kept already; remove one"):
        person.add_prompt_set(SUPPORT.model_copy(update={"name": "other"}))


def test_a_study_names_one_that_is_kept(client: Make, spec: StudyCreate) -> None:
    person = client(Scope.OPERATE)
    wanted = spec.model_copy(update={"prompts": "support"})
    with pytest.raises(BadRequest, match="prompts: no prompt set 'support' is kept; add it by tailwright prompts add"):
        person.create_study(wanted)
    person.add_prompt_set(SUPPORT)
    assert person.create_study(wanted).spec.prompts == "support"


def _packed(document: Any) -> str:
    return base64.b64encode(zlib.compress(json.dumps(document).encode())).decode()


GOOD = ["a", None]


@pytest.mark.parametrize(
    ("prompts", "why"),
    [
        ("no base64!", "no packed prompts"),
        ({"prompts": [GOOD] * 9}, "wants a list of prompts"),
        ([*[GOOD] * 9, ["b"]], "prompt 10: wants a text and"),
        ([*[GOOD] * 9, [7, None]], "prompt 10: wants a text that is not empty"),
        ([*[GOOD] * 9, [" ", None]], "prompt 10: wants a text that is not empty"),
        ([*[GOOD] * 9, ["\ud800", None]], "prompt 10: holds half of a surrogate pair"),
        ([*[GOOD] * 9, ["b", True]], "prompt 10: max_tokens wants a whole number"),
        ([*[GOOD] * 9, ["b", 2**30]], "prompt 10: max_tokens is above"),
        ([GOOD] * 4, "wants 5 to 20,000, got 4"),
        ([GOOD] * (MOST + 1), "wants 5 to 20,000, got 20,001"),
        (["a" * (LARGEST_BYTES + 1)], "larger than"),
    ],
)
def test_what_are_no_prompts_is_refused_and_nothing_kept(client: Make, prompts: Any, why: str) -> None:
    packed = prompts if isinstance(prompts, str) else _packed(prompts)
    person = client(Scope.OPERATE)
    with pytest.raises(BadRequest, match=why):
        person.add_prompt_set(PromptSetCreate(name="x", prompts=packed))
    assert person.prompt_sets() == []
