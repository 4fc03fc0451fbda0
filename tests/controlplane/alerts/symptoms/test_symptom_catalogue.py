"""The catalogue is refused with the nearest name where it says what it cannot mean."""

import pytest

from controlplane.alerts.symptoms.symptom_catalogue import FILE, catalogue, read_catalogue
from controlplane.contract.errors import BadRequest

TEXT = FILE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('shown_as = "share"', 'showed_as = "share"', "no such key, did you mean 'shown_as'?"),
        ('"kv_usage", above = 0.95', '"kv_usag", above = 0.95', "no metric 'kv_usag', did you mean 'kv_usage'?"),
        ('"kv_usage", above = 0.95', '"kv_usage", abov = 0.95', "no such key, did you mean 'above'?"),
        ('"kv_usage", above = 0.95', '"ttft", above = 0.95', "ttft is a histogram, wanted is a gauge"),
        ("finish_reason = [", "finish_raeson = [", "no label 'finish_raeson', did you mean 'finish_reason'?"),
        ('{ metric = "kv_usage", above = 0.95 }', '{ metric = "kv_usage" }', "give one of above and below"),
        ('severity = "page"', 'severity = "mail"', "severity"),
    ],
)
def test_a_mistake_is_named_with_its_mend(right: str, wrong: str, said: str) -> None:
    assert right in TEXT
    with pytest.raises(BadRequest) as refused:
        read_catalogue(TEXT.replace(right, wrong, 1))
    assert said in refused.value.message


def test_windows_are_whole_and_sentences_name_what_they_can() -> None:
    for one in catalogue().values():
        assert {word for word in ("{value}", "{limit}") if word in one.says} <= {"{value}", "{limit}"}
        assert one.every_s % 5 == 0 and one.meaning.endswith(".") and one.look_at
        assert getattr(one.expression, "window_s", 60) % 5 == 0
