"""Templates as the served families write them, rendered as transformers does; and tokenizer folders of all ages."""

import json
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import transformers

from agents.engine.text.chat_template import ChatTemplate
from agents.engine.text.tokenizer import TextCodec
from controlplane.contract.errors import BadRequest

QWEN = """{%- if tools %}{{- '<|im_start|>system\\n# Tools' }}{%- for tool in tools %}{{- "\\n" + (tool | tojson) }}
{%- endfor %}{{- '<|im_end|>\\n' }}{%- endif %}
{%- set ns = namespace(multi_step=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and message.content is string
        and not (message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step = false %}{%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == "assistant" and '</think>' in message.content %}
        {%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}
    {%- else %}
        {%- set content = message.content %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}"""

LLAMA = """{{- bos_token }}
{%- if not date_string is defined %}{%- set date_string = strftime_now("%d %b %Y") %}{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: " + date_string + "<|eot_id|>" }}
{%- for message in messages %}
    {%- if message.role == 'tool' %}{%- continue %}{%- endif %}
    {%- if 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}{{- raise_exception("one tool call at once!") }}{%- endif %}
        {{- message.tool_calls[0].function | tojson(indent=2) }}
    {%- else %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim }}
    {%- endif %}
    {{- '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}
"""

GEMMA = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant") }}
    {%- endif -%}
    {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}
        {%- endfor -%}
    {%- else -%}{{ raise_exception("Invalid content type") }}{%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{'<start_of_turn>model
'}}{%- endif -%}"""

GENERATION = "{% for m in messages %}{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}{% endfor %}"
TEMPLATES = {"qwen": QWEN, "llama": LLAMA, "gemma": GEMMA, "generation": GENERATION}
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be <brief> & true."},
    {"role": "user", "content": " Hé! "},
    {"role": "assistant", "content": "<think>\nhm</think>\n\nYes?"},
    {"role": "user", "content": "Why?"},
]

Folder = Callable[..., Path]


@pytest.fixture
def folder(model_dir: Path, tmp_path: Path) -> Folder:
    """A tokenizer folder with the given settings and further files."""

    def make(settings: dict[str, Any], **files: str) -> Path:
        shutil.copy(model_dir / "tokenizer.json", tmp_path)
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        for name, content in files.items():
            (tmp_path / name.replace("__", ".")).write_text(content)
        return tmp_path

    return make


def _template(folder: Path) -> ChatTemplate:
    return ChatTemplate(folder, TextCodec(folder))


@pytest.mark.parametrize("family", TEMPLATES)
def test_renders_as_transformers_does(folder: Folder, family: str) -> None:
    path = folder({"bos_token": "<b>", "eos_token": {"content": "<e>"}}, chat_template__jinja=TEMPLATES[family])
    other = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(path / "tokenizer.json"), bos_token="<b>", eos_token="<e>"
    )
    wanted = other.apply_chat_template(
        TALK, chat_template=TEMPLATES[family], tokenize=False, add_generation_prompt=True
    )
    assert _template(path).render(TALK) == wanted
    assert len(wanted) > 30


def test_the_families_prompts_are_what_they_are_known_to_be(folder: Folder) -> None:
    settings = {"bos_token": "<b>"}
    user = [{"role": "user", "content": "Hi"}]
    gemma = _template(folder(settings, chat_template__jinja=GEMMA))
    assert gemma.render(user) == "<b><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n"
    qwen = _template(folder(settings, chat_template__jinja=QWEN))
    assert qwen.render(user) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    llama = _template(folder(settings, chat_template__jinja=LLAMA)).render(user)
    today = datetime.now().strftime("%d %b %Y")
    assert f"Today Date: {today}" in llama and llama.endswith("<|start_header_id|>assistant<|end_header_id|>\n\n")


def test_variables_reach_the_template(folder: Folder) -> None:
    template = _template(folder({}, chat_template__jinja=QWEN))
    assert template.render(TALK, {"enable_thinking": False}).endswith("<think>\n\n</think>\n\n")
    assert '# Tools\n{"name": "<f>"}<|im_end|>' in template.render(TALK, {"tools": [{"name": "<f>"}]})


def test_a_key_that_a_client_sends_as_null_is_not_there(folder: Folder) -> None:
    template = _template(folder({"bos_token": "<b>"}, chat_template__jinja=LLAMA))
    assert "Hi" in template.render([{"role": "user", "content": "Hi", "tool_calls": None}])


@pytest.mark.parametrize(
    ("family", "messages"),
    [
        ("gemma", [{"role": "assistant", "content": "I begin"}]),
        ("gemma", [{"role": "user", "content": 5}]),
        ("qwen", [{"role": "user", "content": 5}]),
        ("llama", [{"role": "user", "content": "a", "tool_calls": [1, 2]}]),
    ],
)
def test_what_a_template_refuses_is_the_clients_error(
    folder: Folder, family: str, messages: list[dict[str, Any]]
) -> None:
    template = _template(folder({"bos_token": "<b>"}, chat_template__jinja=TEMPLATES[family]))
    with pytest.raises(BadRequest, match="messages") as refused:
        template.render(messages)
    assert refused.value.detail["field"] == "messages"


def test_templates_are_found_in_every_place_of_a_folder(folder: Folder) -> None:
    several = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]
    assert _template(folder({"chat_template": several})).render([]) == "D"
    assert _template(folder({"chat_template": "S"})).render([]) == "S"
    older = json.dumps({"chat_template": "J"})
    assert _template(folder({"chat_template": "S"}, chat_template__json=older)).render([]) == "J"
    assert _template(folder({"chat_template": "S"}, chat_template__jinja="F")).render([]) == "F"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chat_template": "{% for %}"}, "broken"),
        ({"chat_template": [{"name": "rag", "template": "R"}]}, "none is named default"),
    ],
)
def test_a_broken_template_is_the_folders_error(folder: Folder, settings: dict[str, Any], message: str) -> None:
    path = folder(settings)
    with pytest.raises(BadRequest, match=message) as refused:
        _template(path)
    assert refused.value.detail["field"] == "model"


def test_special_tokens_may_be_named_in_the_older_file(folder: Folder) -> None:
    codec = TextCodec(folder({"eos_token": "<e>"}, special_tokens_map__json=json.dumps({"bos_token": "<b>"})))
    assert codec.special_tokens() == {"bos_token": "<b>", "eos_token": "<e>"}


def test_tokens_that_only_the_settings_name_are_added(folder: Folder) -> None:
    size = TextCodec(folder({})).vocabulary_size
    added = {
        str(size): {"content": "<start_of_turn>", "special": True, "normalized": False},
        str(size + 1): {"content": "<think>", "special": False, "normalized": False},
    }
    codec = TextCodec(folder({"added_tokens_decoder": added}))
    tokens = codec.encode("<start_of_turn>the<think>")
    assert (tokens[0], tokens[-1]) == (size, size + 1)
    assert codec.decode(tokens) == "the<think>"
    with pytest.raises(BadRequest, match="shall be token 999"):
        TextCodec(folder({"added_tokens_decoder": {"999": {"content": "<far>"}}}))


@pytest.mark.parametrize(
    ("settings", "framed"),
    [
        ({}, (False, False)),
        ({"add_bos_token": True}, (True, False)),
        ({"add_bos_token": True, "add_eos_token": True}, (True, True)),
        ({"add_bos_token": False, "add_eos_token": False}, (False, False)),
    ],
)
def test_settings_say_how_prompts_are_framed(
    folder: Folder, settings: dict[str, Any], framed: tuple[bool, bool]
) -> None:
    path = folder({"bos_token": "<|end|>", "eos_token": "<|end|>", **settings})
    codec = TextCodec(path)
    plain = codec.encode("the cat", add_special_tokens=False)
    before, after = ([codec.token_id("<|end|>")] if wanted else [] for wanted in framed)
    assert codec.encode("the cat") == [*before, *plain, *after]


def test_broken_files_are_named(folder: Folder) -> None:
    with pytest.raises(BadRequest, match=r"tokenizer_config\.json: not JSON"):
        TextCodec(folder({}, tokenizer_config__json="{"))
    with pytest.raises(BadRequest, match=r"tokenizer\.json: no tokenizer"):
        TextCodec(folder({}, tokenizer__json="{}"))
