"""Streams of text: whole characters only, joined they are everything, and stop strings never show."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.text.chat_template import ChatTemplate
from agents.engine.text.text_stream import TextRules
from agents.engine.text.tokenizer import TextCodec
from controlplane.contract.errors import BadRequest


@pytest.fixture(scope="module")
def codec(model_dir: Path) -> TextCodec:
    return TextCodec(model_dir)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(tokens=st.lists(st.integers(0, 319), max_size=40), cuts=st.lists(st.integers(1, 5), min_size=40, max_size=40))
def test_pieces_join_to_the_whole_text(codec: TextCodec, tokens: list[int], cuts: list[int]) -> None:
    stream, text, done = codec.stream(), "", 0
    for cut in cuts:
        text += stream.push(tokens[done : done + cut])
        done += cut
    assert text + stream.finish() == codec.decode(tokens)


def test_a_character_of_several_tokens_is_held_back(codec: TextCodec) -> None:
    tokens = codec.encode("é")
    assert len(tokens) == 2
    stream = codec.stream()
    assert [stream.push([token]) for token in tokens] == ["", "é"]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(text=st.text("ab ", max_size=30), stops=st.lists(st.text("ab ", min_size=1, max_size=4), min_size=1, max_size=3))
def test_text_ends_before_the_first_stop_string(codec: TextCodec, text: str, stops: list[str]) -> None:
    stream, shown = codec.stream(TextRules(stops)), ""
    for token in codec.encode(text):
        shown += stream.push([token])
        assert not any(stop in shown for stop in stops)
        if stream.stopped:
            break
    shown += stream.finish()
    places = [text.find(stop) for stop in stops if stop in text]
    if not places:
        assert shown == text
    else:
        assert stream.stopped and text.startswith(shown) and not any(stop in shown for stop in stops)


def test_the_chat_template_renders_and_refuses_by_name(model_dir: Path, codec: TextCodec, tmp_path: Path) -> None:
    template = ChatTemplate(model_dir, codec)
    assert template.render([{"role": "user", "content": "hi"}]) == "<user>hi\n<assistant>"
    (tmp_path / "chat_template.jinja").write_text("{{ raise_exception('no system') }}")
    with pytest.raises(BadRequest, match="no system") as refused:
        ChatTemplate(tmp_path, codec).render([{"role": "system", "content": "x"}])
    assert refused.value.detail["field"] == "messages"


def test_a_template_cannot_reach_python(codec: TextCodec, tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("{{ messages.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(BadRequest):
        ChatTemplate(tmp_path, codec).render([])
