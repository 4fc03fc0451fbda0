"""A token's row as the API shows it: without its digest."""

from controlplane.auth.tables import TokenRow
from controlplane.contract.bodies.access import TokenView


def token_view(row: TokenRow) -> TokenView:
    return TokenView.model_validate(row, from_attributes=True)
