"""Which service, and which token: the order of options, variables and profiles, and that no token goes astray."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.errors import BadSettings
from controlplane.serving.tls import ClientFiles
from controlplane.terminal.profiles import Profile
from controlplane.terminal.service_choice import NO_FILES, SERVER, Choice, Source, choose

NOTHING = Source()
PROFILE = Source.of_profile(Profile("https://kept", Path("kept.token"), ca_file=Path("kept.pem")))
KEPT = Choice("https://kept", None, Path("kept.token"), ClientFiles(Path("kept.pem")))


def chosen(options: Source, around: Source, profile: Source | None = PROFILE, *, is_named: bool = False) -> Choice:
    return choose(options, around, profile, is_named=is_named, files=NO_FILES)


def test_without_anything_it_is_the_service_of_this_machine() -> None:
    assert chosen(NOTHING, NOTHING, None) == Choice(SERVER)


def test_a_profile_is_used_where_nothing_else_is_said() -> None:
    assert chosen(NOTHING, NOTHING) == KEPT


def test_variables_go_before_the_profile_in_use_and_a_named_one_before_them() -> None:
    around = Source("http://around", "t")
    assert chosen(NOTHING, around) == Choice("http://around", "t")
    assert chosen(NOTHING, around, is_named=True) == KEPT


def test_options_go_before_all_and_one_sources_token_before_its_file() -> None:
    options = Source("http://asked", "a", Path("f"))
    assert chosen(options, Source("http://around", "t"), is_named=True) == Choice("http://asked", "a")
    assert chosen(Source(token_file=Path("f")), Source(None, "t")).token_file == Path("f")


def test_files_of_tls_are_those_that_were_given_else_the_profiles() -> None:
    given_files = ClientFiles(Path("given.pem"))
    assert choose(NOTHING, NOTHING, PROFILE, is_named=False, files=given_files).files == given_files
    assert chosen(Source("https://asked"), NOTHING).files == NO_FILES


@pytest.mark.parametrize("server", ["nonsense", "ftp://host", "127.0.0.1:7300"])
def test_what_is_no_address_is_refused(server: str) -> None:
    with pytest.raises(BadSettings, match="--server: wants http"):
        chosen(Source(server), NOTHING)


maybe = st.none() | st.just("")
sources = st.builds(
    Source.of,
    st.fixed_dictionaries(
        {
            "server": maybe | st.just("http://other"),
            "token": maybe | st.just("t"),
            "token_file": st.none() | st.just(Path("f")),
        }
    ),
)


@given(sources, sources, st.booleans())
def test_a_profiles_token_goes_to_its_own_server_only(options: Source, around: Source, is_named: bool) -> None:
    found = chosen(options, around, is_named=is_named)
    if found.token_file == Path("kept.token") or found.files.any:
        assert found.server == "https://kept"
    assert found.token is None or found.token_file is None
