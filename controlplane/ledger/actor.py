"""Who did something: a name, and the token that spoke, where one did."""

SERVICE = "tailwright"
"""The actor of what the service does by itself."""
AGENT = "agent "
"""What the name of an agent's deeds begins with; its node follows."""


class Actor(str):
    """The name of a token that speaks, which also knows its number: names may be given twice, numbers are not."""

    token_id: int

    def __new__(cls, name: str, token_id: int) -> "Actor":
        made = super().__new__(cls, name)
        made.token_id = token_id
        return made


def is_reserved(name: str) -> bool:
    """Whether the ledger would take a token of this name for the service or for an agent."""
    plain = " ".join(name.casefold().split())
    return plain == SERVICE or plain == AGENT.strip() or plain.startswith(AGENT)
