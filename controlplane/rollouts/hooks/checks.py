"""A hook as it is wanted, made whole and checked. Pure but for the secrets, which are handed in.

Guarantee: that of `keys.kept_secret`; a hook's place is scheme and host of its URL.
"""

from collections.abc import Mapping
from typing import TypeVar

from controlplane.contract.changes.hooks import HookSettings
from controlplane.contract.errors import BadRequest
from controlplane.contract.shown_url import masked
from controlplane.keys.kept_secret import Stored, elsewhere, kept

SECRETS = ("url", "secret")
SHORTEST = 8
H = TypeVar("H", bound=HookSettings)


def whole_hook(wanted: H, stored: Mapping[str, Stored | None], shown: str) -> H:
    """With the secrets that it keeps of the hook that is there, each under its name in `stored`; none is kept after.

    shown: that hook's URL as people see it. Raises `BadRequest`.
    """
    stay = {name: _kept(wanted, name, stored.get(name)) for name in SECRETS if getattr(wanted, f"{name}_kept")}
    whole = wanted.model_copy(update={**stay, **{f"{name}_kept": False for name in SECRETS}})
    if whole.url is None:
        raise BadRequest("url: say where the hook is, or url_kept where one is there", field="url")
    if "secret" in stay and masked(whole.url) != shown:
        raise elsewhere(shown)
    secret = whole.secret
    if secret is not None and len(secret) < SHORTEST:
        raise BadRequest(f"secret: at least {SHORTEST} characters, or null for none", field="secret")
    return whole


def _kept(wanted: HookSettings, name: str, stored: Stored | None) -> str:
    hint = f" (in a file of `tailwright apply` by {name}_file or {name}_env)"
    return kept(name, getattr(wanted, name), stored, f"hook {wanted.name!r}", hint)
