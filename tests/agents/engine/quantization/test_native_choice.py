"""A kernel is used only where it computes what its twin does."""

import logging

import pytest

from agents.engine.ops import linear_native
from agents.engine.quantization import native_choice
from controlplane.contract.errors import BadRequest

FORMATS = ("int8", "int4", "fp8", "bfloat16", "wide_f32", "wide_bf16", "wide_f16")


@pytest.mark.parametrize("format_name", FORMATS)
def test_the_kernels_of_this_machine_are_right(format_name: str) -> None:
    choice = linear_native.choose(format_name)
    if not choice.native:
        pytest.skip(choice.report)
    assert native_choice._difference(format_name) <= native_choice.TOLERANCE
    assert native_choice.choose(format_name) == choice


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_kernel_that_is_wrong_is_not_used(
    format_name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if not linear_native.choose(format_name).native:
        pytest.skip("no kernel to be wrong")
    right = linear_native.product
    monkeypatch.setattr(linear_native, "product", lambda *arguments: right(*arguments) * 1.2)
    choose = native_choice.choose.__wrapped__  # Past what this process has found before.
    with caplog.at_level(logging.WARNING):
        choice = choose(format_name)
    assert not choice.native and "wrong" in choice.report
    assert format_name in caplog.text
    with pytest.raises(BadRequest, match="wrong"):
        choose(format_name, "native")
