"""`tailwright tls` makes files that TLS takes, and says in one line what it cannot do."""

import json
from datetime import datetime
from pathlib import Path

from typer.testing import CliRunner, Result

from controlplane.command.main import app
from controlplane.serving.tls import TlsFiles, client_context, context_of


def tls(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["tls", *words, "--dir", str(folder)])


def test_a_fleet_is_set_up_and_renewed(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    assert tls(folder, "init").exit_code == 0
    made = tls(folder, "server", "service", "--host", "tailwright.example", "--host", "10.0.0.7")
    assert made.output.startswith(f"{folder}/service.pem and .key, until 20")
    assert tls(folder, "node", "gpu-1").exit_code == 0
    context_of(TlsFiles(folder / "service.pem", folder / "service.key", folder / "ca.pem"))
    client_context(folder / "ca.pem", folder / "gpu-1.pem", folder / "gpu-1.key")
    assert tls(folder, "renew").output == f"nothing in {folder} ends within 30 days\n"
    before = (folder / "gpu-1.pem").read_bytes()
    assert tls(folder, "renew", "--within-days", "91").output.count("until") == 3
    assert (folder / "gpu-1.pem").read_bytes() != before


def test_a_node_is_revoked_and_comes_back_with_a_certificate_anew(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    tls(folder, "init")
    tls(folder, "node", "gpu-1")
    told = tls(folder, "revoke", "gpu-1", "--reason", "key-compromise").output.splitlines()
    assert len(told) == 2 and "is revoked (key-compromise)" in told[0]
    assert told[1].startswith(f"{folder}/crl.pem, until 20")
    assert tls(folder, "revoke", "gpu-1").output.startswith("gpu-1: nothing is left to revoke\n")
    assert tls(folder, "node", "gpu-1").exit_code == 0
    (folder / "crl.pem").unlink()
    assert tls(folder, "renew").output.startswith(f"{folder}/crl.pem, until 20")
    assert tls(folder, "revoke", "gpu-9").exit_code == tls(folder, "revoke", "ca").exit_code == 2


def test_programs_are_told_the_files_and_when_they_end(tmp_path: Path) -> None:
    folder = tmp_path / "tls"

    def told(*words: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(tls(folder, *words, "--json").stdout)
        return found

    assert told("init")["certificate"] == f"{folder}/ca.pem"
    for words in (("server", "service", "--host", "tailwright.example"), ("node", "gpu-1")):
        made = told(*words)
        assert (made["name"], made["key"]) == (words[1], f"{folder}/{words[1]}.key")
        assert datetime.fromisoformat(str(made["ends_at"])).tzinfo is not None
    assert told("renew") == {"renewed": [], "list": None}
    renewed = told("renew", "--within-days", "91")
    assert [one["name"] for one in renewed["renewed"]] == ["gpu-1", "service"]  # type: ignore[attr-defined]
    assert renewed["list"]["file"] == f"{folder}/crl.pem"  # type: ignore[index]
    revoked = told("revoke", "gpu-1", "--reason", "key-compromise")
    assert revoked["reason"] == "key-compromise" and len(revoked["serials"]) == 2  # type: ignore[arg-type]
    assert told("revoke", "gpu-1")["serials"] == []
    refused = tls(folder, "server", "service", "--host", "tailwright.example", "--json")
    assert (refused.exit_code, refused.stdout) == (2, "") and "is there already" in refused.stderr


def test_what_cannot_be_done_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    assert "holds no CA" in tls(folder, "node", "gpu-1").output
    tls(folder, "init")
    for words in (["init"], ["node", "../evil"], ["node", "ca"], ["server", "x/y", "--host", "h"]):
        answer = tls(folder, *words)
        assert answer.exit_code == 2 and answer.output.count("\n") == 1, words
    assert tls(folder, "server", "service").exit_code == 2
