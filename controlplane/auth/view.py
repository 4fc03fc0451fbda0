"""A token's row as the API shows it: without its digest."""

from controlplane.auth.tables import TokenRow
from controlplane.contract.bodies.access import EnrolmentRules, Scope, TokenView


def token_view(row: TokenRow, rules: EnrolmentRules | None = None) -> TokenView:
    """`rules`: of a token of scope enrol that has some."""
    shown = row.model_dump(include=set(TokenView.model_fields))
    return TokenView.model_construct(**shown | {"scope": Scope(row.scope), "enrolment": rules})
