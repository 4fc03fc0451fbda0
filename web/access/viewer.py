"""The API as one browser's session may look at it, with the session's scope.

Guarantee: whether what was answered is also for others of this scope is told (`own_answers`). The scope is what the
session had when it was last looked up.
"""

from controlplane.client import Client
from controlplane.contract.bodies.access import Scope
from web.access.shared_answers import SharingTransport


class Viewer(Client):
    """One browser's. Not for several threads at once, which `own_answers` would confuse."""

    def __init__(self, service_url: str, secret: str, transport: SharingTransport) -> None:
        super().__init__(service_url, secret, transport=transport)
        self.secret = secret
        self._sharing = transport

    @property
    def scope(self) -> Scope:
        return self._sharing.scope

    @scope.setter
    def scope(self, now: Scope) -> None:
        self._sharing.scope = now

    @property
    def own_answers(self) -> int:
        """How many answers it got so far that are this session's alone."""
        return self._sharing.own_answers

    @property
    def changes(self) -> int:
        """How often something was changed from a browser here: what was drawn before is of before."""
        return self._sharing.changes


def scope_of(client: Client) -> Scope:
    """What the session of `client` may do: a viewer's is known, another's is asked for."""
    return client.scope if isinstance(client, Viewer) else client.own_session().scope


def may_operate(client: Client) -> bool:
    """Whether the session may change what runs."""
    return scope_of(client) in {Scope.OPERATE, Scope.ADMIN}
