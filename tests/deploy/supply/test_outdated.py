"""What is locked is compared with what a package index has, and an index that cannot be asked is said aloud."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from packaging.version import Version

from deploy.supply import audit, lock_file, outdated
from deploy.supply.outdated import File, usable
from tests.processes import free_port

FORMS = ("json", "html")


class Index(ThreadingHTTPServer):
    """A package index that has of each locked distribution the locked version; `more` adds files."""

    def __init__(self, form: str) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.form = form
        self.pins: dict[str, list[File]] = {one.name: [] for one in outdated.locked()}
        self.gone: set[str] = set()
        self.asked: list[str] = []
        for one in outdated.locked():  # Two versions of one name: both are there.
            self.pins[one.name].append(file_of(one.name, str(one.version)))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/simple"


class Answer(BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        name = self.path.strip("/").split("/")[-1]
        self.server.asked.append(name)
        files = self.server.pins.get(name)
        if files is None or name in self.server.gone:
            self.send_error(404)
            return
        if self.server.form == "json":
            told = [{"filename": f.name, "yanked": f.withdrawn, "requires-python": f.requires_python} for f in files]
            kind, text = "application/vnd.pypi.simple.v1+json", json.dumps({"files": told})
        else:
            kind, text = "text/html", "".join(map(link, files))
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


def file_of(name: str, version: str, *, withdrawn: bool = False, requires_python: str = "") -> File:
    return File(f"{name.replace('-', '_')}-{version}-py3-none-any.whl", withdrawn, requires_python)


def link(file: File) -> str:
    wants = file.requires_python.replace(">", "&gt;").replace("<", "&lt;")
    withdrawn = ' data-yanked=""' if file.withdrawn else ""
    return f'<a href="../../packages/ab/{file.name}#sha256=0"{withdrawn} data-requires-python="{wants}">x</a>\n'


@pytest.fixture(params=FORMS)
def index(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    server = Index(request.param)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("PIP_INDEX_URL", server.url + "/")
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
def test_what_is_newest_is_no_news(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    assert outdated.main() == 0
    said = capsys.readouterr().out.splitlines()
    counted = Counter(one.name for one in outdated.locked())
    count, doubled = counted.total(), {name for name, times in counted.items() if times > 1}
    assert {line.split()[0] for line in said[1:-1]} <= doubled  # The older of two locked versions is older.
    assert said[-1].endswith(f"of {count} locked versions have a newer one at {index.url}")
    assert set(index.asked) == set(counted)


@pytest.mark.slow
def test_a_newer_version_is_told_with_the_locked_one(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    version = lock_file.read("run")["httpx"].version
    early = next(one for one in outdated.locked() if one.version.is_prerelease)
    index.pins[early.name].append(file_of(early.name, "99.0b1"))
    index.pins["httpx"].append(file_of("httpx", "79.0b1"))
    index.pins["httpx"] += [file_of("httpx", "77.0"), file_of("httpx", "78.1")]
    assert outdated.main() == 0
    told = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert told[0] == ["name", "locked", "newest", "lock"]
    assert [words for words in told if words[0] == "httpx"] == [["httpx", version, "78.1", "run,", "vllm"]]
    assert [words[2] for words in told if words[0] == early.name] == ["99.0b1"]


@pytest.mark.slow
def test_what_the_index_does_not_know_is_said(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    index.gone = {"httpx"}
    index.pins["h11"] = [File("h11-99.tar.gz", False, "")]
    assert outdated.main() == 1
    said = capsys.readouterr().out
    assert "UNKNOWN httpx: 404 Not Found\n" in said and "UNKNOWN h11: no wheel that could be locked\n" in said


def test_an_index_that_knows_nothing_is_none(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    index.pins = {}
    assert outdated.main() == 1
    assert capsys.readouterr().out.startswith("outdated SKIPPED: no package index")
    assert index.asked == [audit.PROBE]


def test_an_index_that_is_away_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{free_port()}/simple"
    monkeypatch.setenv("PIP_INDEX_URL", url)
    assert outdated.main() == 1
    said = capsys.readouterr().out
    assert said.startswith("outdated SKIPPED: no package index") and f"{url}: " in said and "refused" in said


@pytest.mark.slow
def test_pips_index_is_the_one_that_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://mirror.example/simple/\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    assert outdated.configured_index() == "https://mirror.example/simple"


@pytest.mark.parametrize(
    ("file", "version"),
    [
        (file_of("x", "2.0"), "2.0"),
        (file_of("x", "2.0", requires_python=">=3.9,<4"), "2.0"),
        (file_of("x", "2.0", requires_python=">=3.12"), None),
        (file_of("x", "2.0", requires_python="nonsense"), None),
        (file_of("x", "2.0", withdrawn=True), None),
        (file_of("x", "2.0rc1"), None),
        (file_of("x", "2.0.dev3"), None),
        (file_of("x", "2.0.post1"), "2.0.post1"),
        (File("x-2.0.tar.gz", False, ""), None),
        (File("x.whl", False, ""), None),
    ],
)
def test_what_could_be_locked_counts(file: File, version: str | None) -> None:
    assert usable(file) == (None if version is None else Version(version))
