"""A page of docs/runbooks/ for each symptom: `python -m controlplane.alerts.symptoms.runbooks` writes them.

Guarantee: a page says nothing that is not in the catalogue, so what an alert links to is what it was judged by.
"""

from pathlib import Path

from controlplane.alerts.symptoms.expressions import Cohort, Expression, Levels, OtherKind, Ratio, Silence, Tail, Trend
from controlplane.alerts.symptoms.symptom_catalogue import Symptom, catalogue
from controlplane.contract.bodies.alerts import SymptomView
from controlplane.contract.share_text import share_text

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "runbooks"
INDEX = "README.md"


def pages() -> dict[str, str]:
    """File name to its text, the index among them."""
    made = {f"{one.id}.md": page(one) for one in catalogue().values()}
    return {INDEX: index(), **made}


def page(one: Symptom) -> str:
    looks = "\n".join(f"- {look}" for look in one.look_at)
    return f"""# {one.title}

{one.meaning}

**First remedy.** {one.remedy}

## What to look at
{looks}

## What to do
{one.runbook}

## When it fires
{judged_by(one)}

{one.threshold_why}

Severity `{one.severity.value}`. {one.why_default}
"""


def symptom_view(one: Symptom) -> SymptomView:
    """As the API shows it: the same words as on its page."""
    said = one.model_dump(include=set(SymptomView.model_fields))
    return SymptomView(**said, limit=one.limit, judged_by=f"{judged_by(one)} {one.threshold_why}")


def index() -> str:
    rows = "\n".join(
        f"| [{one.title}]({one.id}.md) | `{one.id}` | {one.severity.value} | {'on' if one.default else 'off'} |"
        for one in catalogue().values()
    )
    return f"""# Runbooks

One page a symptom, made of the catalogue (`controlplane/alerts/symptoms/catalogue.toml`); an alert links to its own.
Switch one on with a rule of the kind `symptom` ([../on-call.md](../on-call.md)), try it first with
`tailwright rules dry-run`, or the form of a new rule on `/alerting`. Without a `severity` it has the one told here.

| symptom | id | severity | in a new installation |
|---|---|---|---|
{rows}
"""


def judged_by(one: Symptom) -> str:
    patience = f"It must last {one.for_s:g} s, and be over for {one.resolve_s:g} s."
    if isinstance(one.expression, OtherKind):
        return f"By rules of the kind `{one.expression.kind}`. {patience}"
    factor = f" It is called over at {one.resolve_at:g} of the limit." if one.resolve_at != 1.0 else ""
    return f"{in_words(one.expression)} {patience}{factor} A rule's `threshold` replaces the limit {one.limit:g}."


def in_words(form: Expression) -> str:
    if isinstance(form, Levels):
        terms = " and ".join(
            f"`{term.metric}` {'above' if term.above is not None else 'below'} {term.limit:g}" for term in form.terms
        )
        return f"On a node: {terms}, in {share_text(form.held)} of the windows of {form.window_s:g} s."
    if isinstance(form, Ratio):
        side = "above" if form.above is not None else "below"
        gates = "".join(
            f"; and `{gate.over.metric}` over `{gate.under.metric}` {'above' if gate.above is not None else 'below'} "
            f"{gate.limit:g}"
            for gate in form.gates
        )
        bound = " by Wilson's 99 % bound" if form.is_share else ""
        of = "".join(f" ({label} {', '.join(values)})" for label, values in form.over.where.items())
        return (
            f"By {form.by}: `{form.over.metric}`{of} over `{form.under.metric}` in {form.window_s:g} s {side} "
            f"{form.limit:g}{bound}, with at least {form.min_under:g} of `{form.under.metric}`{gates}."
        )
    if isinstance(form, Trend):
        return f"On a node: `{form.metric}` falls steadily over {form.window_s / 3600:g} h, and its end is near."
    if isinstance(form, Silence):
        return f"On a node: no `{form.metric}` for {form.above:g} s, though there was within {form.remembered_s:g} s."
    if isinstance(form, Tail):
        return (
            f"Of the `{form.metric}` beyond the pool's own p{100 * form.q:g} in {form.window_s:g} s, more than "
            f"{form.above:g} are of {form.label} {', '.join(form.values)} (Wilson's 99 % bound), while at most "
            f"{form.most_of_all:g} of all are; with at least {form.min_count} values."
        )
    assert isinstance(form, Cohort)
    arm = f"first heard from within {form.young_s:g} s" if form.arm == "young" else "with quantized weights"
    matched = f", where `{form.matched}` differs by less than a quarter" if form.matched else ""
    return (
        f"By {form.by}, nodes {arm} against the others of the pool{matched}: more than {form.above:g} of their "
        f"`{form.metric}` in {form.window_s:g} s lie beyond the others' p{100 * form.q:g} (Wilson's 99 % bound), "
        f"with at least {form.min_count} values on each side."
    )


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
