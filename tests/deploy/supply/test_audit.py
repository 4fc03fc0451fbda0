"""The audit fails for what is known to be bad and for what is not known, and says aloud where nobody can be asked."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.supply import audit, lock_file

GOOD = {"name": "torch", "version": "2.13.0", "vulns": []}
BAD = {
    "name": "h11",
    "version": "0.1",
    "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-2026-1"], "fix_versions": ["0.2"], "description": "x"}],
}
UNKNOWN = {"name": "yarl", "skip_reason": "Dependency not found on PyPI"}


@pytest.fixture
def source(monkeypatch):
    """answers(NAME, LOCKS) -> dependencies, or NoAnswer raised; in pip-audit's place."""

    def use(answers):
        def ask(name, locks):
            asked.append((name, locks))
            return audit.findings_of({"dependencies": answers(name, locks)}, audit.ACCEPTED)

        monkeypatch.setattr(audit, "ask", ask)

    asked = []
    use.asked = asked
    monkeypatch.delenv("TAILWRIGHT_AUDIT_REQUIRED", raising=False)
    return use


def test_nothing_known_is_good(source, capsys):
    source(lambda name, locks: [GOOD] * len(locks))
    assert audit.main() == 0
    assert [locks for _, locks in source.asked] == [(audit.PROBE,), *audit.GROUPS]
    assert capsys.readouterr().out.strip() == "audit: 7 locked versions looked up at pypi"


def test_a_vulnerability_fails_and_is_named(source, capsys):
    source(lambda name, locks: [GOOD, BAD] if "run" in locks else [GOOD])
    assert audit.main() == 1
    assert "VULNERABLE h11 0.1: PYSEC-1 CVE-2026-1, mended in 0.2\n" in capsys.readouterr().out


def test_what_the_source_does_not_know_fails(source, capsys):
    source(lambda name, locks: [GOOD, UNKNOWN] if "vllm" in locks else [GOOD])
    assert audit.main() == 1
    assert "UNKNOWN yarl\n" in capsys.readouterr().out


def test_the_next_source_is_asked(source, capsys):
    def answers(name, locks):
        if name == "pypi":
            raise audit.NoAnswer("no such host")
        return [GOOD]

    source(answers)
    assert audit.main() == 0
    assert "looked up at osv" in capsys.readouterr().out


def test_an_index_without_advisories_is_no_source(source, capsys):
    """A mirror answers 404 for what pip-audit asks, which it takes for an unknown name: nothing was audited."""
    source(lambda name, locks: [{**UNKNOWN, "name": "torch"}])
    assert audit.main() == 0
    told = capsys.readouterr().out
    assert told.startswith("audit SKIPPED: no advisory source")
    assert "pypi: does not know torch" in told and "osv: does not know torch" in told
    assert source.asked == [("pypi", ("torch",)), ("osv", ("torch",))]


def test_required_it_fails_without_a_source(source, monkeypatch, capsys):
    monkeypatch.setenv("TAILWRIGHT_AUDIT_REQUIRED", "1")
    source(lambda name, locks: [UNKNOWN])
    assert audit.main() == 1
    assert "SKIPPED" in capsys.readouterr().out


def test_a_source_that_stops_answering_fails(source, capsys):
    def answers(name, locks):
        if "vllm" in locks:
            raise audit.NoAnswer("503 Service Unavailable")
        return [GOOD]

    source(answers)
    assert audit.main() == 1
    assert capsys.readouterr().out == "audit FAILED: pypi answered for torch, then no more: 503 Service Unavailable\n"


@pytest.mark.parametrize("accepted", ["PYSEC-1", "CVE-2026-1"])
def test_an_accepted_advisory_is_left_out(accepted):
    assert audit.findings_of({"dependencies": [BAD]}, {accepted: "not reached"}).good


@given(st.lists(st.sampled_from([GOOD, BAD, UNKNOWN]), max_size=6))
def test_good_is_all_known_and_none_vulnerable(dependencies):
    found = audit.findings_of({"dependencies": dependencies}, {})
    assert found.good == (bool(dependencies) and all(told == GOOD for told in dependencies))
    assert found.looked_up + len(found.unknown) == len(dependencies)


def test_what_pip_audit_could_not_do_is_told_in_a_line(monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "Traceback\n  File x\nConnectionError: no route\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(audit.NoAnswer, match=r"^ConnectionError: no route$"):
        audit.ask("pypi", ("run",))


def test_every_lock_is_audited():
    """But agent's, a part of run's, and torch-cpu's: its version is torch's."""
    audited = {name for group in audit.GROUPS for name in group}
    assert {file.stem for file in lock_file.LOCKS.glob("*.txt")} - audited == {"agent", "torch-cpu"}
    assert lock_file.read("agent").keys() <= lock_file.read("run").keys()


@pytest.mark.slow
def test_pip_audit_reads_the_locks():
    """Without asking anybody."""
    files = [argument for name in audit.GROUPS[0] for argument in ("-r", str(lock_file.LOCKS / f"{name}.txt"))]
    command = [audit.sys.executable, "-m", "pip_audit", "--dry-run", "--require-hashes", "--disable-pip", *files]
    done = subprocess.run(command, capture_output=True, text=True)
    pins = {name for lock in audit.GROUPS[0] for name in lock_file.read(lock)}
    assert f"would have audited {len(pins)} packages" in done.stderr, done.stderr[-500:]
