"""Profiles are read as they were written; a file that is wrong is refused with the place and the mend."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.errors import BadSettings
from controlplane.terminal.profiles import NAME, Profile, Profiles, read_profiles, toml_of, write_profiles

names = st.from_regex(NAME, fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
files = st.none() | texts.map(lambda text: Path("/" + text))
profiles = st.builds(Profile, texts, files, files, files, files)


@given(named=st.dictionaries(names, profiles, max_size=3), data=st.data())
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, named: dict[str, Profile], data: st.DataObject
) -> None:
    default = data.draw(st.none() | st.sampled_from(sorted(named))) if named else None
    path = tmp_path_factory.mktemp("config") / "tailwright" / "profiles.toml"
    write_profiles(path, Profiles(named, default))
    assert read_profiles(path) == Profiles(named, default)
    assert os.listdir(path.parent) == [path.name]


def test_no_file_is_no_profile(tmp_path: Path) -> None:
    assert read_profiles(tmp_path / "none.toml") == Profiles()
    assert toml_of(Profiles()) == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("defalt = 'a'", "defalt: no such key, did you mean 'default'"),
        ("default = 'a'\n[profiles.b]\nserver = 'http://b'", "no profile 'a'"),
        ("[profiles.b]\nsever = 'http://b'", r"\[profiles.b\] sever: no such key, did you mean 'server'"),
        ("[profiles.b]\ntoken_file = 'f'", r"\[profiles.b\] server: wants a text"),
        ("[profiles.b]\nserver = 1", r"\[profiles.b\] server: wants a text"),
        ("profiles = 1", r"\[profiles\] is not a table"),
        ("[profiles]\nb = 1", r"\[profiles.b\] is not a table"),
        ("nonsense", "cannot be read"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text(text)
    with pytest.raises(BadSettings, match=told):
        read_profiles(path)


def test_a_name_that_is_none_and_one_that_there_is_not_are_refused() -> None:
    kept = Profiles({"production": Profile("http://a")}, "production")
    with pytest.raises(BadSettings, match="did you mean 'production'"):
        kept.profile("prodution")
    with pytest.raises(BadSettings, match="wants 1 to 64 letters"):
        kept.with_profile("a b", Profile("http://a"))
    assert kept.without("production") == Profiles()
