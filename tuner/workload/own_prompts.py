"""A study's own prompts, as its trial node's engine has them: some to replay, others for what is asked of quality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.errors import NotFound
from controlplane.contract.planning.packed_prompts import unpacked_prompts
from tuner.workload.corpus import Tokenize
from tuner.workload.prompt_dealer import TokenPrompt, drawn, enough_of, how_many


@dataclass(frozen=True)
class OwnPrompts:
    """`held_out`: tokens of prompts that no replay has; empty where there are too few."""

    replayed: Sequence[TokenPrompt]
    held_out: Sequence[int]


def told_of(client: Client, spec: StudyCreate) -> dict[str, Any]:
    """What a study's plan keeps of the set that it names. Raises NotFound."""
    kept = client.prompt_set(spec.prompts)
    return {"name": kept.name, "id": kept.id, "prompts": kept.figures.prompts}


def own_prompts(
    client: Client, spec: StudyCreate, told: Mapping[str, Any], tokenize: Tokenize, *, requests: int, quality: int
) -> OwnPrompts:
    """`told`: of the set that the study began with. requests: of its slices; quality: tokens that its gate asks for, 0:
    none. Raises NotFound where the set is another by now."""
    kept = client.prompt_set_text(spec.prompts)
    if kept.id != told.get("id"):
        raise NotFound(
            f"prompts: {spec.prompts} is not the set that the study began with; ask for the study again",
            field="prompts",
        )
    prompts = unpacked_prompts(kept.prompts)

    def read(places: Sequence[int]) -> list[TokenPrompt]:
        return [TokenPrompt(tokenize(prompts[place].text), prompts[place].max_tokens) for place in places]

    replayed = read(drawn(len(prompts), spec.seed, quality=False)[: how_many(requests)])
    held = read(drawn(len(prompts), spec.seed, quality=True)[: how_many(quality // 20)]) if quality else []
    return OwnPrompts(replayed, enough_of(held, quality))
