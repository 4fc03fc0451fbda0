"""Static files: names that follow the content, imports that follow the names, the coding that a browser asks for."""

import gzip
import re
from hashlib import sha256
from pathlib import Path

import cramjam
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from web import dashboard
from web.frame.assets import ASSETS, PREFIX, Assets, chosen
from web.frame.rendering import templates

OFFERED = ("br", "gzip", "identity")


def test_a_module_names_what_it_imports_by_its_served_name() -> None:
    for asset in ASSETS:
        if asset.path.endswith(".js"):
            imported = re.findall(r'from "([^"]+)"', asset.bodies["identity"].decode())
            assert all(ASSETS.found(path) for path in imported)
    assert ASSETS.address("cursor.js").encode() in ASSETS.found(ASSETS.address("charts.js")).bodies["identity"]  # type: ignore[union-attr]


def test_a_change_changes_the_names_of_all_that_import_it_and_of_nothing_else(tmp_path: Path) -> None:
    for name, text in (("a.js", 'import { b } from "./b.js";\n'), ("b.js", 'import "./c.js";\n'), ("d.css", "x{}")):
        (tmp_path / name).write_text(text)
    (tmp_path / "c.js").write_text("export const c = 1;\n")
    before = Assets(tmp_path)
    (tmp_path / "c.js").write_text("export const c = 2;\n")
    after = Assets(tmp_path)
    changed = {name for name in ("a.js", "b.js", "c.js", "d.css") if before.address(name) != after.address(name)}
    assert changed == {"a.js", "b.js", "c.js"}


def test_modules_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text('import "./b.js";\n')
    (tmp_path / "b.js").write_text('import "./a.js";\n')
    with pytest.raises(ValueError, match=r"a\.js -> b\.js -> a\.js"):
        Assets(tmp_path)


def test_each_coding_holds_the_same_bytes() -> None:
    for asset in ASSETS:
        assert gzip.decompress(asset.bodies["gzip"]) == asset.bodies["identity"]
        assert bytes(cramjam.brotli.decompress(asset.bodies["br"])) == asset.bodies["identity"]


@pytest.mark.parametrize(
    ("accept", "coding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip, deflate", "gzip"),
        ("br;q=0, gzip;q=0.1", "gzip"),
        ("*", "br"),
        ("*;q=0, gzip", "gzip"),
        ("", "identity"),
        ("BR", "br"),
        ("br;q=much", "identity"),
    ],
)
def test_the_coding_is_one_that_the_browser_takes(accept: str, coding: str) -> None:
    assert chosen(accept, OFFERED) == coding


@given(st.text(max_size=60))
def test_any_header_gets_one_of_the_codings(accept: str) -> None:
    assert chosen(accept, OFFERED) in OFFERED


def test_an_asset_is_kept_for_ever_and_nothing_else_is_served() -> None:
    app = FastAPI()
    dashboard.mount(app, "http://127.0.0.1:1")
    with TestClient(app) as browser:
        path = ASSETS.address("dashboard.css")
        answer = browser.get(path, headers={"Accept-Encoding": "gzip"})
        assert answer.headers["Content-Encoding"] == "gzip" and answer.headers["Vary"] == "Accept-Encoding"
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert answer.headers["Content-Type"].startswith("text/css") and ":root" in answer.text
        assert browser.head(path).status_code == 200
        hidden = ("dashboard.css", "dashboard.000000000000.css", "%00", "assets.py")
        assert {browser.get(PREFIX + name).status_code for name in hidden} == {404}


def test_files_of_others_are_as_they_were_published() -> None:
    folder = Path(dashboard.__file__).parent / "static/vendor"
    rows = re.findall(r"^\| (\S+) \| .* \| ([0-9a-f]{64}) \|$", (folder / "README.md").read_text(), re.MULTILINE)
    kept = {file.name: sha256(file.read_bytes()).hexdigest() for file in folder.iterdir() if file.name != "README.md"}
    assert dict(rows) == kept and len(rows) >= 2


def test_templates_name_assets_only_by_what_is_there() -> None:
    folder = Path(dashboard.__file__).parent / "templates"
    text = "".join(file.read_text() for file in folder.rglob("*.html"))
    named = re.findall(r"asset\('([^']+)'\)", text)
    assert len(named) > 5 and all(ASSETS.address(name) for name in named)
    assert '"/static/' not in text and templates.env.globals["asset"] == ASSETS.address
