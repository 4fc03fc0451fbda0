"""What no code here does: run text, read objects out of bytes, parse XML, hash weakly, draw secrets by chance."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOPS = ("controlplane", "agents", "tuner", "web")

MODULES = {"pickle", "cPickle", "dill", "shelve", "marshal", "yaml", "xml", "lxml", "telnetlib", "ftplib", "smtplib"}
CALLS = {"eval", "exec", "compile", "os.system", "os.popen", "hashlib.md5", "hashlib.sha1", "tempfile.mktemp"}
CALLS |= {"ssl._create_unverified_context", "jinja2.Template", "markupsafe.Markup", "Markup"}
BY_CHANCE = {"agents/host/backoff.py", "controlplane/alerts/notify/delivery.py", "tuner/search/search.py"}
BY_CHANCE |= {"tuner/search/space.py", "tuner/search/quality_gate.py", "tuner/workload/rescale.py"}
BY_CHANCE |= {"tuner/twin/vllm_scheduler.py"}
"""Who imports `random`: waits, also those told to others, what part of a space is searched, which held-out text comes
first, traffic rearranged, and which drafts a forecast keeps."""
MAILER = ("controlplane/outgoing/guarded_mail.py", "smtplib")
"""The one place that speaks to mail servers: guarded, with a deadline, never in clear with a login."""
CLIENTS = {"httpx.Client", "httpx.AsyncClient", "httpx.get", "httpx.post", "httpx.request", "httpx.stream"}
SCRIPT = re.compile(r"\beval\(|new Function|document\.write|localStorage|sessionStorage|indexedDB|document\.cookie")


@cache
def trees() -> list[tuple[str, ast.Module]]:
    paths = [path for top in TOPS for path in sorted((ROOT / top).rglob("*.py"))]
    return [(str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.split(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [(node.module or "").split(".")[0]]
    return []


@pytest.mark.slow
def test_nothing_reads_objects_or_xml() -> None:
    found = [(name, module) for name, tree in trees() for node in ast.walk(tree) for module in imported(node)]
    assert [pair for pair in found if pair[1] in MODULES] == [MAILER]
    assert {name for name, module in found if module == "random"} == BY_CHANCE


@pytest.mark.slow
def test_nothing_runs_text_or_hashes_weakly() -> None:
    found = []
    for name, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            arguments = {word.arg: ast.unparse(word.value) for word in node.keywords}
            if (
                called in CALLS
                or arguments.get("shell", "False") != "False"
                or arguments.get("verify") == "False"
                or arguments.get("autoescape") == "False"
                or (called == "torch.load" and arguments.get("weights_only") != "True")
            ):
                found.append((name, ast.unparse(node)))
    assert found == []


@pytest.mark.slow
def test_no_client_follows_the_environment_s_proxies() -> None:
    """Whoever set HTTP_PROXY would read each bearer token; websockets and httpx follow it unless they are told."""
    seen, found = set(), []
    for name, tree in trees():
        of_websockets = any(
            isinstance(node, ast.ImportFrom) and (node.module or "").startswith("websockets") for node in ast.walk(tree)
        )
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            arguments = {word.arg: ast.unparse(word.value) for word in node.keywords}
            if called in CLIENTS:
                seen.add(called)
                fine = arguments.get("trust_env") == "False"
            elif called == "connect" and of_websockets:
                seen.add(called)
                fine = arguments.get("proxy", "True") != "True"
            else:
                fine = called != "aiohttp.ClientSession" or arguments.get("trust_env", "False") == "False"
            if not fine:
                found.append((name, ast.unparse(node)))
    assert found == []
    assert {"httpx.Client", "httpx.AsyncClient", "connect"} <= seen


def test_no_page_runs_text_or_keeps_anything_in_the_browser() -> None:
    scripts = sorted((ROOT / "web").rglob("*.js"))
    assert scripts
    assert [(path.name, SCRIPT.findall(path.read_text(encoding="utf-8"))) for path in scripts] == [
        (path.name, []) for path in scripts
    ]
