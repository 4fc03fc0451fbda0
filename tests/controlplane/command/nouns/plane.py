"""A service, and the command line that speaks to it."""

import json
from dataclasses import dataclass
from typing import Any

import httpx
from click.testing import Result
from typer.testing import CliRunner

from controlplane.command.main import app


@dataclass
class Plane:
    """A service, and the command line that speaks to it. `http` speaks with the admin's token, as commands do."""

    url: str
    token: str
    http: httpx.Client

    def run(self, *arguments: object, status: int = 0, given: str | None = None) -> Result:
        """Asserts the exit status."""
        env = {"TAILWRIGHT_SERVER_URL": self.url, "TAILWRIGHT_TOKEN": self.token}
        result = CliRunner().invoke(app, [str(one) for one in arguments], env=env, input=given)
        assert result.exit_code == status, (result.output, result.exception)
        return result

    def json(self, *arguments: object, status: int = 0, given: str | None = None) -> Any:
        """The one document that `--json` prints."""
        return json.loads(self.run(*arguments, "--json", status=status, given=given).stdout)

    def get(self, path: str, **params: Any) -> Any:
        return self.http.get(f"/api/v1/{path}", params=params).raise_for_status().json()

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self.http.post(f"/api/v1/{path}", json=body).raise_for_status().json()

    def enrol(self, node: str, pool: str, role: str = "serving") -> None:
        self.post("enrol", {"node": node, "pool": pool, "backend": "embedded", "role": role})
