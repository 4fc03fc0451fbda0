"""The design's colours can be read: contrast of WCAG 2.2 (1.4.3, 1.4.11), computed from the tokens themselves."""

import re
from itertools import pairwise

import pytest

from web.drawing.heat_map import LEVELS
from web.frame.assets import ASSETS
from web.frame.states import Kind

CSS = ASSETS.found(ASSETS.address("tokens.css")).bodies["identity"].decode()  # type: ignore[union-attr]
COLOURS = {
    name: (light, dark) for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", CSS)
}
TINT = float(re.findall(r"--tint: (\d+)%", CSS)[0]) / 100
STATES = [kind.value for kind in Kind]
THEMES = pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])

Colour = tuple[float, float, float]


def colour(name: str, theme: int) -> Colour:
    text = COLOURS[name][theme]
    return int(text[1:3], 16) / 255, int(text[3:5], 16) / 255, int(text[5:7], 16) / 255


def luminance(of: Colour) -> float:
    """WCAG's relative luminance."""
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in of)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Colour, other: Colour) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def mixed(one: Colour, share: float, other: Colour) -> Colour:
    red, green, blue = (share * a + (1 - share) * b for a, b in zip(one, other, strict=True))
    return red, green, blue


def test_the_formula_is_wcags() -> None:
    assert contrast((0, 0, 0), (1, 1, 1)) == pytest.approx(21)
    assert contrast((0x76 / 255,) * 3, (1, 1, 1)) == pytest.approx(4.54, abs=0.01)  # The grey that just passes.


@THEMES
@pytest.mark.parametrize("name", ["ink", "soft", "blue", *STATES])
def test_text_is_read_on_both_grounds(name: str, theme: int) -> None:
    for ground in ("ground", "card"):
        assert contrast(colour(name, theme), colour(ground, theme)) >= 4.5, ground


@THEMES
@pytest.mark.parametrize("name", ["soft", *STATES])
def test_a_state_is_read_on_its_own_tint(name: str, theme: int) -> None:
    tint = mixed(colour(name, theme), TINT, colour("card", theme))
    assert contrast(colour(name, theme), tint) >= 4.5
    assert contrast(colour("ink", theme), tint) >= 4.5


@THEMES
def test_lines_and_parts_stand_out_from_their_card(theme: int) -> None:
    drawn = [name for name in COLOURS if name.startswith(("line-", "part-")) or name == "mark"]
    assert len(drawn) == 14
    assert {name for name in drawn if contrast(colour(name, theme), colour("card", theme)) < 3} == set()


@THEMES
def test_the_scale_from_few_to_many_is_told_apart_from_the_card_and_step_by_step(theme: int) -> None:
    scale = [colour(f"heat-{level}", theme) for level in range(1, LEVELS + 1)]
    assert f"heat-{LEVELS + 1}" not in COLOURS
    against = [contrast(of, colour("card", theme)) for of in scale]
    assert against[0] >= 3 and all(after > 1.18 * before for before, after in pairwise(against))


@pytest.mark.parametrize("name", ["dashboard.css", "drawings.css"])
def test_colours_stand_nowhere_but_in_the_tokens(name: str) -> None:
    rest = ASSETS.found(ASSETS.address(name)).bodies["identity"].decode()  # type: ignore[union-attr]
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?![^{]*\{)", rest) == []
    assert set(re.findall(r"var\(--([\w-]+)\)", rest)) - {"of"} <= set(re.findall(r"--([\w-]+):", CSS))
