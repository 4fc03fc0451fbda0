"""Kept prompts over HTTP: text of one's own, for studies to replay. Who may not operate sees none of it."""

from typing import Annotated

from fastapi import APIRouter, Path

from controlplane.auth import Operator, Reader
from controlplane.contract.bodies.pages import Page
from controlplane.contract.bodies.workload import WORKLOAD_NAME, KeptPromptSet, PromptSetCreate, PromptSetText
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import Conflict, NotFound
from controlplane.db import SessionDep
from controlplane.db.paging import Cursor, Limit, page_of
from controlplane.studies.endpoints import Studies
from controlplane.studies.prompt_sets import prompt_set_store
from controlplane.studies.prompt_sets.prompt_set_checks import checked_prompts

router = APIRouter(prefix="/api/v1/prompt-sets", tags=["studies"])

PromptSetName = Annotated[str, Path(pattern=WORKLOAD_NAME, description="the prompt set's name")]


@router.get("")
def list_prompt_sets(session: SessionDep, _: Reader, limit: Limit = 100, cursor: Cursor = None) -> Page[KeptPromptSet]:
    """Kept prompt sets, newest first, without their prompts."""
    return page_of(prompt_set_store.listing(session, before_id=cursor, limit=limit + 1), limit)


@router.post("", status_code=201, responses=answers(Conflict))
def add_prompt_set(
    wanted: PromptSetCreate, session: SessionDep, principal: Operator, service: Studies
) -> KeptPromptSet:
    """Keep prompts under a name, encrypted, 5 to 20,000; 409 where the name is taken, or 20 sets are kept."""
    found, now = checked_prompts(wanted), service.clock()
    return prompt_set_store.add(session, wanted, found, service.keyring, actor=principal.actor, now=now)


@router.get("/{name}", responses=answers(NotFound))
def read_prompt_set(name: PromptSetName, session: SessionDep, _: Reader) -> KeptPromptSet:
    """What kept prompts are like."""
    return prompt_set_store.get(session, name)


@router.get("/{name}/text", responses=answers(NotFound))
def read_prompts(name: PromptSetName, session: SessionDep, _: Operator, service: Studies) -> PromptSetText:
    """The prompts themselves, packed as they were added."""
    return prompt_set_store.text(session, name, service.keyring)


@router.delete("/{name}", status_code=204, responses=answers(NotFound))
def remove_prompt_set(name: PromptSetName, session: SessionDep, principal: Operator, service: Studies) -> None:
    """Forget prompts. A study that names them and is not over will fail."""
    prompt_set_store.remove(session, name, actor=principal.actor, now=service.clock())
