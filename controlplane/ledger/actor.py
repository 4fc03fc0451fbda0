"""Who did something: a name, and the token that spoke or the person, where there is one."""

SERVICE = "tailwright"
"""The actor of what the service does by itself."""
AGENT = "agent "
"""What the name of an agent's deeds begins with; its node follows."""


class Actor(str):
    """The name of a token or a person that speaks, which also knows its number: names may be given twice, numbers are
    not."""

    token_id: int | None
    person_id: int | None

    def __new__(cls, name: str, token_id: int | None, person_id: int | None = None) -> "Actor":
        made = super().__new__(cls, name)
        made.token_id = token_id
        made.person_id = person_id
        return made

    @property
    def evidence(self) -> dict[str, int]:
        """The number that there is, as the ledger keeps it."""
        numbers = {"token_id": self.token_id, "person_id": self.person_id}
        return {name: number for name, number in numbers.items() if number is not None}


def is_reserved(name: str) -> bool:
    """Whether the ledger would take a token of this name for the service or for an agent."""
    plain = " ".join(name.casefold().split())
    return plain == SERVICE or plain == AGENT.strip() or plain.startswith(AGENT)
