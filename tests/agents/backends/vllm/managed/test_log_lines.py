"""Of a long log, the lines that say why; the logs are those of a real vLLM 0.32, shortened."""

from hypothesis import given
from hypothesis import strategies as st

from agents.backends.vllm.managed.log_lines import MOST_CHARACTERS, MOST_LINES, telling_lines

WRONG_ARGUMENT = """\
(APIServer pid=11368) INFO 11-21 10:40:02 [utils.py:233] non-default args: {'max_model_len': 900000}
(APIServer pid=11368) Traceback (most recent call last):
(APIServer pid=11368)   File "/env/bin/vllm", line 8, in <module>
(APIServer pid=11368)     sys.exit(main())
(APIServer pid=11368)              ^^^^^^
(APIServer pid=11368) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
(APIServer pid=11368)   Value error, User-specified max_model_len (900000) is greater than the derived max_model_len
(APIServer pid=11368)     For further information visit https://errors.pydantic.dev/2.14/v/value_error
"""
ENGINE_FAILED = """\
\x1b[0;36m(EngineCore pid=77)\x1b[0;0m ERROR 11-21 10:40:02 [core.py:1100] EngineCore failed to start.
\x1b[0;36m(EngineCore pid=77)\x1b[0;0m ERROR 11-21 10:40:02 [core.py:1100] Traceback (most recent call last):
\x1b[0;36m(EngineCore pid=77)\x1b[0;0m ERROR 11-21 10:40:02 [core.py:1100]   File "/env/vllm/core.py", line 1074, in run
\x1b[0;36m(EngineCore pid=77)\x1b[0;0m ERROR 11-21 10:40:02 [core.py:1100] ValueError: No available memory for the cache
(EngineCore pid=77) Exception: WorkerProc initialization failed. See stack trace for root cause.
(APIServer pid=70) Traceback (most recent call last):
(APIServer pid=70)   File "/env/vllm/utils.py", line 900, in wait_for_engine_startup
(APIServer pid=70) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def test_a_wrong_argument_is_the_first_line_and_its_explanation_the_next() -> None:
    first, second, *_ = telling_lines(WRONG_ARGUMENT).splitlines()
    assert first == "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig"
    assert "max_model_len (900000) is greater" in second


def test_the_root_cause_goes_before_what_it_led_to() -> None:
    assert telling_lines(ENGINE_FAILED).splitlines()[0] == "ValueError: No available memory for the cache"
    assert "\x1b" not in telling_lines(ENGINE_FAILED)


def test_usage_errors_are_found() -> None:
    log = "INFO starting\nusage: vllm serve [model_tag] [options]\nvllm serve: error: argument --block-size: invalid\n"
    assert telling_lines(log).splitlines()[0] == "vllm serve: error: argument --block-size: invalid"


def test_without_anything_telling_the_last_lines_are_given() -> None:
    log = "\n".join(f"line {number}" for number in range(100))
    assert telling_lines(log).splitlines() == [f"line {number}" for number in range(85, 100)]
    assert telling_lines("") == ""


@given(st.lists(st.text(max_size=300) | st.sampled_from(["ValueError: x", "  below", "error: y"]), max_size=60))
def test_it_is_bounded_and_made_of_the_log(lines: list[str]) -> None:
    log = "\n".join(lines)
    found = telling_lines(log)
    assert all(line in log for line in found.split("\n"))
    if any(line.strip() and not line.startswith(" ") for line in log.splitlines()):
        assert found
    assert len(found) <= MOST_CHARACTERS
    assert len(found.split("\n")) <= MOST_LINES
