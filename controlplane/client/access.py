"""Is the service ready, and who may do what: tokens and enrolment."""

from controlplane.client.connection import Connection
from controlplane.contract.bodies.access import EnrolmentReply, EnrolmentRequest, TokenCreate, TokenCreated, TokenView


class AccessCalls(Connection):
    """Health, tokens, enrolment."""

    def ready(self) -> bool:
        """True when reports are accepted and durable."""
        return self._http.get("/readyz").status_code == 200

    def whoami(self) -> TokenView:
        return self._one(TokenView, "GET", "/api/v1/tokens/self")

    def create_token(self, wanted: TokenCreate) -> TokenCreated:
        return self._one(TokenCreated, "POST", "/api/v1/tokens", body=wanted)

    def tokens(self) -> list[TokenView]:
        return list(self.every(TokenView, "/api/v1/tokens"))

    def revoke_token(self, token_id: int) -> None:
        self._request("DELETE", f"/api/v1/tokens/{token_id}")

    def enrol(self, wanted: EnrolmentRequest) -> EnrolmentReply:
        return self._one(EnrolmentReply, "POST", "/api/v1/enrol", body=wanted)
