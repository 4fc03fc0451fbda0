"""How a node gets into the fleet: once with the enrolment token, from then on with its own.

Guarantee: the credentials in use are on disk (mode 600) before they are used, so a restart enrols only when the service
has refused the stored token. Tries again for ever, slowly, saying why: a service that is not up yet is no error. A node
that has neither credentials nor a token to get them with, or one that the service refuses, is one: `BadSettings`, once
`enrolment_token_wait_s` are over in which the token may be put right.
"""

import asyncio
import logging
import time
from dataclasses import replace

import httpx

from agents.agent.delivery import credentials
from agents.agent.delivery.credentials import Credentials
from agents.agent.settings import AgentSettings
from agents.host.backoff import Backoff
from controlplane.client import raise_for_error
from controlplane.contract.bodies.access import EnrolmentReply, EnrolmentRequest
from controlplane.contract.errors import BadSettings, Forbidden, TailwrightError, Unauthenticated

log = logging.getLogger(__name__)

RENEW_AT_MOST_EVERY_S = 30.0
TOKEN_FILE_LOOK_S = 0.5


class Enrolment:
    """The node's credentials, asked for when there are none. `current` is None until `ensure` has returned."""

    def __init__(self, settings: AgentSettings, http: httpx.AsyncClient) -> None:
        self._settings = settings
        self._http = http
        self._lock = asyncio.Lock()
        self._renewed_at = float("-inf")
        self._old_token: str | None = None
        self._refused: TailwrightError | None = None  # Why the service did not take the enrolment token, last time.
        self.current: Credentials | None = credentials.load(settings.state_dir, settings.node)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.current.token}"} if self.current is not None else {}

    async def ensure(self) -> Credentials:
        """The stored credentials, or new ones, however long the service takes to answer.

        Raises `BadSettings` where there are none, and no token to ask for some with that the service takes.
        """
        if self.current is not None and self._has_moved(self.current):
            self._old_token, self.current = self.current.token, None
        if self.current is None:
            await self._until_there_is_a_token()
        backoff, refused_since = Backoff(), None
        while self.current is None:
            async with self._lock:
                await self._enrol()
            refused_since = None if self._refused is None else refused_since or time.monotonic()
            if refused_since and time.monotonic() - refused_since >= self._settings.enrolment_token_wait_s:
                raise self._bad_token()
            if self.current is None:
                await asyncio.sleep(backoff.next_s())
        return self.current

    async def renew(self, refused: Credentials | None) -> None:
        """The service answered 401 to `refused`: enrol again, unless that has just been tried or done by another."""
        async with self._lock:
            now = time.monotonic()
            if self.current is not refused or now - self._renewed_at < RENEW_AT_MOST_EVERY_S:
                return
            self._renewed_at = now
            log.warning("the service does not know this node's token any more, enrolling again")
            await self._enrol()

    async def take_over(self, token: str) -> None:
        """The service gives the node another token, which counts already: from now on it is the one."""
        async with self._lock:
            if self.current is None or self.current.token == token:
                return
            fresh = replace(self.current, token=token)
            await asyncio.to_thread(credentials.save, self._settings.state_dir, fresh)
            self.current = fresh
            log.info("the service gave this node another token")

    def _has_moved(self, known: Credentials) -> bool:
        """Pool and role are those of the enrolment: to change them is to enrol again."""
        wanted = (self._settings.pool, self._settings.role)
        if (known.pool, known.role) == wanted:
            return False
        log.info("enrolled in %s as %s, now wanted in %s as %s: enrolling again", known.pool, known.role, *wanted)
        return True

    async def _until_there_is_a_token(self) -> None:
        """A token's file may be written later, by a unit that is started beside this one: it is waited for, bounded."""
        file, longest_s = self._settings.enrolment_token_file, self._settings.enrolment_token_wait_s
        if file is None and not self._settings.enrolment_token:
            raise BadSettings(
                "enrolment_token_file: is needed, this node has not enrolled yet: give --enrolment-token-file FILE "
                "(or --enrolment-token TOKEN; or TAILWRIGHT_ENROLMENT_TOKEN_FILE, TAILWRIGHT_ENROLMENT_TOKEN)",
                field="enrolment_token_file",
            )
        until = time.monotonic() + longest_s
        waiting = False
        while self._settings.read_enrolment_token() is None:
            if time.monotonic() >= until:
                raise BadSettings(
                    f"enrolment_token_file: {file} holds no token, after {longest_s:g} s of waiting "
                    "(--enrolment-token-wait-s)",
                    field="enrolment_token_file",
                )
            if not waiting:
                log.warning("waiting for the enrolment token in %s, for at most %g s", file, longest_s)
                waiting = True
            await asyncio.sleep(TOKEN_FILE_LOOK_S)

    def _bad_token(self) -> BadSettings:
        file = self._settings.enrolment_token_file
        field, place = ("enrolment_token", "--enrolment-token") if file is None else ("enrolment_token_file", str(file))
        why = "" if self._refused is None else f": {self._refused.message}"
        return BadSettings(
            f"{field}: the service at {self._settings.server_url} does not take the token of {place}{why}", field=field
        )

    async def _enrol(self) -> None:
        self._refused = None
        token = self._settings.read_enrolment_token()
        if token is None:
            log.error(
                "no enrolment token: set enrolment_token or enrolment_token_file (TAILWRIGHT_ENROLMENT_TOKEN[_FILE])"
            )
            return
        wanted = EnrolmentRequest(
            node=self._settings.node,
            pool=self._settings.pool,
            backend=self._settings.backend,
            role=self._settings.role,
            old_token=self._old_token if self.current is None else self.current.token,
        )
        try:
            answer = await self._http.post(
                "/api/v1/enrol", json=wanted.model_dump(exclude_none=True), headers={"Authorization": f"Bearer {token}"}
            )
            raise_for_error(answer)
            reply = EnrolmentReply.model_validate_json(answer.content)
        except (httpx.HTTPError, TailwrightError, ValueError) as error:
            self._refused = error if isinstance(error, Unauthenticated | Forbidden) else None
            log.warning("not enrolled yet: %s", str(error) or type(error).__name__)
            return
        granted = Credentials(reply.node, reply.pool, reply.role, reply.token, reply.workload_key)
        credentials.save(self._settings.state_dir, granted)
        self.current = granted
        log.info("enrolled as %s in pool %s", reply.node, self._settings.pool)
