"""A study's report as a browser and as a command get it, and as it opens where nothing can be reached."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from typer.testing import CliRunner

from controlplane.command.main import app
from tests.web.conftest import Bare
from tests.web.reach.test_every_page import DESKTOP, LOOKS, RULES
from tests.web.studies.measured_study import carried_out

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def number(bare: Bare) -> Iterator[int]:
    with bare.client() as client:
        yield carried_out(client)


@pytest.fixture(scope="module")
def saved(bare: Bare, number: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the command has written."""
    file = tmp_path_factory.mktemp("report") / "report.html"
    options = ["studies", "report", str(number), "--out", str(file)]
    answer = CliRunner().invoke(app, [*options, "--server", bare.url, "--token", bare.token()])
    assert answer.exit_code == 0, answer.output
    assert answer.stdout == f"study {number}: its report is in {file}\n"
    return file


def test_a_browser_saves_what_the_command_saves(bare_page: Page, number: int, saved: Path) -> None:
    bare_page.goto(f"/studies/{number}")
    with bare_page.expect_download() as begun:
        bare_page.get_by_role("link", name="Save as a report").click()
    assert begun.value.suggested_filename == f"study-{number}.html"

    def but_for_its_time(text: str) -> list[str]:
        return [line for line in text.splitlines() if "Written at" not in line]

    of_browser = Path(begun.value.path()).read_text()
    assert but_for_its_time(of_browser) == but_for_its_time(saved.read_text())


@pytest.mark.parametrize("name", list(LOOKS))
def test_it_opens_where_nothing_can_be_reached(browser: Browser, saved: Path, number: int, name: str) -> None:
    look, asked, said = LOOKS[name], list[str](), list[str]()
    context = browser.new_context(offline=True, viewport=look.viewport)  # type: ignore[arg-type]
    page = context.new_page()
    page.route("**/*", lambda route: route.continue_() if route.request.url == saved.as_uri() else route.abort())
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.goto(saved.as_uri())
    expect(page.get_by_role("heading", name=f"Study {number}: ")).to_be_visible()
    figure = page.get_by_role("figure", name="Trials, knob by knob")
    expect(figure.get_by_role("img")).to_be_visible()
    figure.get_by_text("Values of Trials, knob by knob").click()
    expect(figure.get_by_role("row", name="2 (winner)")).to_be_visible()
    assert figure.locator(".trial.won").evaluate("(line) => getComputedStyle(line).strokeWidth") == "4px"
    assert page.evaluate("document.documentElement.scrollWidth") == look.viewport["width"]
    assert (asked, said) == ([saved.as_uri()], [])
    for scheme in look.schemes:
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert Axe().run(page, options=RULES).response["violations"] == []
    context.close()


def test_it_follows_the_systems_colours_and_paper_is_light(browser: Browser, saved: Path) -> None:
    page = browser.new_page(viewport=DESKTOP, color_scheme="dark")  # type: ignore[arg-type]
    page.goto(saved.as_uri())
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(19, 26, 33)"
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    page.set_viewport_size({"width": 688, "height": 900})  # A sheet of A4 within its margins.
    assert page.evaluate("document.documentElement.scrollWidth") == 688
    page.close()


def test_a_token_or_a_session_is_wanted(bare: Bare, number: int) -> None:
    address = f"{bare.url}/studies/{number}/report"
    nobody = httpx.get(address)
    assert (nobody.status_code, nobody.headers["Location"]) == (303, f"/login?next=/studies/{number}/report")
    for said in ("Bearer nothing", "Basic abc", f"Bearer tailwright_{'x' * 43}"):
        refused = httpx.get(address, headers={"Authorization": said})
        assert refused.status_code == 401 and refused.json()["error"]["code"] == "unauthenticated"
    answer = httpx.get(address, headers={"Authorization": f"Bearer {bare.token()}"})
    assert answer.headers["Content-Disposition"] == f'attachment; filename="study-{number}.html"'
    assert answer.headers["Cache-Control"] == "no-store"


def test_the_command_names_what_is_not_there(bare: Bare, tmp_path: Path) -> None:
    file = tmp_path / "none.html"
    options = ["studies", "report", "999", "--out", str(file), "--server", bare.url, "--token", bare.token()]
    answer = CliRunner().invoke(app, options)
    assert answer.exit_code == 1 and "404 not_found: no study 999" in answer.stderr
    assert not file.exists()


def test_the_page_draws_the_trials_knob_by_knob(bare_page: Page, number: int) -> None:
    bare_page.goto(f"/studies/{number}")
    figure = bare_page.get_by_role("figure", name="Trials, knob by knob")
    expect(figure.locator(".axis")).to_have_count(5)
    expect(figure.locator(".trial.default")).to_have_css("stroke-dasharray", "7px, 4px")
    figure.get_by_role("button", name="Table").click()
    expect(figure.locator(".values tbody tr")).to_have_count(6)


@pytest.mark.parametrize("name", list(LOOKS))
def test_the_page_of_a_measured_study_is_without_violations_and_fits(bare_page: Page, number: int, name: str) -> None:
    bare_page.set_viewport_size(LOOKS[name].viewport)  # type: ignore[arg-type]
    bare_page.goto(f"/studies/{number}")
    expect(bare_page.get_by_role("figure", name="Trials, knob by knob")).to_be_visible()
    for scheme in LOOKS[name].schemes:
        bare_page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert Axe().run(bare_page, options=RULES).response["violations"] == []
    assert bare_page.evaluate("document.documentElement.scrollWidth") == LOOKS[name].viewport["width"]
