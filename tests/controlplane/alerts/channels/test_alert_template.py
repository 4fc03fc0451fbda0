"""What templates may say, what is refused and how, and that nothing an alert or a template says gets out of hand."""

import pytest

from controlplane.alerts.channels.alert_template import MOST_RESULT, NAMES, check, rendered, sample
from controlplane.alerts.channels.channel import Notification, Status
from controlplane.alerts.channels.slack import escaped
from controlplane.contract.errors import BadRequest
from tests.alerts_made import NOW, alert_made, ugly_alert


def told(template: str, status: Status = Status.FIRING) -> str:
    check(template, "text_template")
    return rendered(template, Notification(alert_made(), status, "on-call", "https://t.test", NOW), str)


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ status }}: {{ rule }} in {{ pool | upper }}", "firing: Latency regression in MAIN"),
        ("{{ value }} over {{ threshold }}", "1.90 s over 210 ms"),
        ("{{ labels.node }}{{ labels['nothing'] }}", "gpu-1"),
        ("{% for cause in causes %}{{ loop.index }}. {{ cause }}{% endfor %}", "1. max_num_seqs went up"),
        ("{% for one in updates %}x{% else %}none{% endfor %}", "none"),
        ("{{ causes | join('; ') }} {{ label_lines | length }}", "max_num_seqs went up 6"),
        ("{% if severity == 'page' and not by %}wake{% endif %}", "wake"),
        ("{{ summary | truncate(10) }}", "TTFT p99 …"),
        ("{{ by or 'nobody' }} {{ link }}", "nobody https://t.test/alerts/7"),
        ("a ~ b {{ rule ~ '!' }}\n", "a ~ b Latency regression!\n"),
    ],
)
def test_templates_say_what_an_alert_has(template: str, says: str) -> None:
    assert told(template) == says


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ sumary }}", "an alert has no 'sumary'; did you mean 'summary'?"),
        ("\n{{ poool }}", "line 2: an alert has no 'poool'; did you mean 'pool'?"),
        ("{% if false %}{{ nothing_like_it }}{% endif %}", "an alert has no 'nothing_like_it'"),
        ("{% for cause in cause %}{% endfor %}", "for goes over causes"),
        ("{% for one in causes %}{{ cause }}{% endfor %}", "did you mean 'causes'?"),
        ("{{ loop.index }}", "only labels have members"),
        ("{% for c in causes %}{{ loop.nextitem }}{% endfor %}", "loop has no 'nextitem'"),
        ("{{ summary | uper }}", "no filter 'uper'; did you mean 'upper'?"),
        ("{{ summary", "line 1"),
        ("{{ summary.__class__ }}", "only labels have members"),
        ("{{ labels[pool] }}", "only labels have members"),
        ("{{ summary.format() }}", "a template has no call"),
        ("{{ ''|center(1000000000) }}", "no filter 'center'"),
        ("{{ 'a' * 1000000000 }}", "a template has no mul"),
        ("{{ 10 ** 10 ** 10 }}", "a template has no pow"),
        ("{{ '%1000000000d' % 1 }}", "a template has no mod"),
        ("{% set x = summary %}{% set x = x ~ x %}", "a template has no assign"),
        ("{% macro f() %}{{ f() }}{% endmacro %}", "a template has no"),
        ("{% include 'x' %}", "a template has no include"),
        ("{% for a in causes %}{% for b in causes %}x{% endfor %}{% endfor %}", "for goes over causes"),
        ("{% for a in causes recursive %}{% endfor %}", "for goes over causes"),
        ("{{ summary | truncate('x') }}", "cannot be rendered"),
        ("{{ [1, 2] }}", "a template has no list"),
        ("{{ " + "(" * 1900 + "1" + ")" * 1900 + " }}", "nests too deeply"),
        ("{{ " + "not " * 900 + "rule }}", "nests too deeply"),
        ("{{ 5 | join }}", "cannot be rendered"),
        ("{{ rule " + "| trim " * 100 + "}}", "nests too deeply"),
        ("{% if rule %}" * 100 + "{% endif %}" * 100, "nests too deeply"),
    ],
)
def test_what_is_refused_says_where_and_what_there_is(template: str, says: str) -> None:
    with pytest.raises(BadRequest) as refused:
        check(template, "text_template")
    assert says in refused.value.message and refused.value.detail["field"] == "text_template"
    assert refused.value.message.startswith("text_template: ")


def test_the_longest_template_over_the_longest_alert_is_cut() -> None:
    loop = "{% for one in label_lines %}" + "{{ summary }}" * 250 + "{% endfor %}"
    check(loop, "text_template")
    notification = Notification(ugly_alert(), Status.FIRING, "r", "https://t.test", NOW)
    assert len(rendered(loop, notification, str)) == MOST_RESULT


def test_what_an_alert_says_is_escaped_and_what_the_template_says_is_not() -> None:
    notification = Notification(ugly_alert(), Status.FIRING, "r", "https://t.test", NOW)
    said = rendered("<!here> {{ summary | truncate(30) }}", notification, escaped)
    assert said.startswith("<!here> &lt;!channel&gt; &amp; ")


def test_every_name_is_there_in_every_status() -> None:
    for status in Status:
        for name in NAMES:
            assert isinstance(rendered(f"{{{{ {name} }}}}", sample(status), str), str)
