"""Files of prompts: JSON lines and ShareGPT's; what is none is refused by its line."""

import json
from pathlib import Path

import pytest

from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.packed_prompts import Prompt
from tuner.workload.prompt_file import read_prompts


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text(text, encoding="utf-8")
    return path


def test_json_lines_are_read_with_and_without_an_answers_length(tmp_path: Path) -> None:
    others = [{"prompt": "two\nlines", "id": 7}, {"prompt": "x", "max_tokens": None}]
    lines = [{"prompt": "Hëllo", "max_tokens": 20}, *others]
    text = "\n\n".join(json.dumps(one, ensure_ascii=False) for one in lines)
    assert read_prompts(_file(tmp_path, text)) == [Prompt("Hëllo", 20), Prompt("two\nlines"), Prompt("x")]


def test_of_sharegpts_conversations_the_first_turn_is_taken(tmp_path: Path) -> None:
    turns = [{"from": "gpt", "value": "Hi"}, {"from": "human", "value": "one"}, {"from": "human", "value": "two"}]
    text = json.dumps([{"id": "a", "conversations": turns}, {"conversations": [{"from": "user", "value": "three"}]}])
    assert read_prompts(_file(tmp_path, text)) == [Prompt("one"), Prompt("three")]


def test_a_line_ends_at_its_end_alone(tmp_path: Path) -> None:
    """JSON may hold what Unicode calls the end of a line."""
    text = '{"prompt": "one\u2028two\x85three"}\r\n{"prompt": "four"}\n'
    assert [one.text for one in read_prompts(_file(tmp_path, text))] == ["one\u2028two\x85three", "four"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"prompt": "a"}\nhello', "line 2: no JSON"),
        ('{"text": "a"}', "line 1: wants a prompt"),
        ('{"prompt": "  "}', "line 1: wants a prompt"),
        ('\n["a"]', "conversation 1: wants a first turn"),
        ('[{"conversations": [{"from": "gpt", "value": "a"}]}]', "conversation 1: wants a first turn"),
        ("[{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ('{"prompt": ' + "[" * 100_000, "line 1: no JSON"),
        (" \n", "is empty"),
        ('{"prompt": "a", "max_tokens": 0}', "line 1: max_tokens: wants a whole number"),
        ('{"prompt": "a", "max_tokens": true}', "line 1: max_tokens: wants a whole number"),
    ],
)
def test_what_is_no_prompt_is_refused_by_its_place(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        read_prompts(_file(tmp_path, text))
