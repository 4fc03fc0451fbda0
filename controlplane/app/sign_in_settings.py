"""The settings of signing in: the issuer, whose groups make which role, and whether tokens sign browsers in."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, BeforeValidator, Field

from controlplane.contract.bodies.people import Role
from controlplane.contract.errors import BadSettings
from controlplane.terminal.setting_values import words_of

if TYPE_CHECKING:
    from controlplane.auth.oidc.issuer import Issuer
    from controlplane.auth.oidc.registration import Registration
    from controlplane.auth.oidc.second_factor import SecondFactor
    from controlplane.outgoing.addresses import Network

Words = Annotated[tuple[str, ...], BeforeValidator(words_of)]


class SignInSettings(BaseModel):
    """How people and tokens are signed in."""

    oidc_issuer: str | None = Field(
        default=None, description="OpenID Connect issuer that people sign in at, https; external_url is needed with it."
    )
    oidc_client_id: str | None = Field(default=None, min_length=1, description="What the issuer calls this service.")
    oidc_client_secret_file: Path | None = Field(
        default=None, description="File of the secret shared with the issuer; without it the client is a public one."
    )
    oidc_scopes: Words = Field(
        default=("openid", "profile", "email"), description="Scopes to ask for, with commas between; openid is needed."
    )
    oidc_groups_claim: str = Field(
        default="groups", min_length=1, description="The ID token's claim that lists a person's groups."
    )
    oidc_viewer_groups: Words = Field(default=(), description="Groups that see everything, with commas between.")
    oidc_operator_groups: Words = Field(default=(), description="Groups that start studies and rollouts, too.")
    oidc_admin_groups: Words = Field(default=(), description="Groups that may do everything.")
    oidc_admin_amr: Words = Field(
        default=(),
        description="What shows an admin's second factor, any of them in the ID token's amr, such as mfa,otp,hwk; then "
        "an admin's token signs no browser in.",
    )
    oidc_admin_acr: Words = Field(
        default=(), description="The same, by the ID token's acr; the issuer is asked for these (acr_values)."
    )
    oidc_allow: Words = Field(
        default=(), description="Networks beside the public ones that the issuer is in, such as 10.0.0.0/8."
    )
    oidc_ca_file: Path | None = Field(
        default=None, description="PEM file of whom to trust as the issuer; default: the public authorities."
    )
    token_sign_in: bool = Field(default=True, description="Whether a token may sign a browser in.")

    def registration(self, base_url: str) -> "Registration | None":
        """What was agreed with the issuer; None without one. `base_url`: where browsers reach this service.

        Raises BadSettings that names the setting.
        """
        from controlplane.auth.oidc.group_roles import GroupRoles
        from controlplane.auth.oidc.registration import CALLBACK, Registration, is_safe

        admins = self._admins_second_factor()
        if self.oidc_issuer is None:
            if admins is not None:
                field = "oidc_admin_amr" if self.oidc_admin_amr else "oidc_admin_acr"
                raise BadSettings(f"{field}: is of people's sign-in; oidc_issuer names where", field=field)
            if not self.token_sign_in:
                raise BadSettings(
                    "token_sign_in: with it off nobody can sign in; oidc_issuer names where", field="token_sign_in"
                )
            return None
        if not is_safe(self.oidc_issuer):
            raise BadSettings(f"oidc_issuer: {self.oidc_issuer!r} is no https address", field="oidc_issuer")
        if self.oidc_client_id is None:
            raise BadSettings("oidc_client_id: is needed with oidc_issuer", field="oidc_client_id")
        if "openid" not in self.oidc_scopes:
            raise BadSettings("oidc_scopes: openid has to be among them", field="oidc_scopes")
        if not is_safe(base_url):
            raise BadSettings(
                f"external_url: browsers come back from the issuer to it; {base_url!r} is no https address",
                field="external_url",
            )
        named = {
            Role.VIEWER: self.oidc_viewer_groups,
            Role.OPERATOR: self.oidc_operator_groups,
            Role.ADMIN: self.oidc_admin_groups,
        }
        roles = GroupRoles({role: frozenset(group.strip() for group in groups) for role, groups in named.items()})
        if not roles.told():
            raise BadSettings(
                "oidc_viewer_groups, oidc_operator_groups, oidc_admin_groups: without a group nobody may do anything",
                field="oidc_viewer_groups",
            )
        self._client_secret()  # One that cannot be used is told at the start; later ones at a sign-in.
        return Registration(
            issuer=self.oidc_issuer,
            client_id=self.oidc_client_id,
            redirect_uri=base_url.rstrip("/") + CALLBACK,
            roles=roles,
            client_secret=self._client_secret,
            groups_claim=self.oidc_groups_claim,
            scopes=self.oidc_scopes,
            admins=admins,
        )

    def issuer(self, base_url: str, own: "tuple[Network, ...]") -> "Issuer | None":
        """The issuer, not asked yet; None without one. `own`: networks that may be called in any case.

        Raises BadSettings that names the setting.
        """
        import ssl

        from controlplane.auth.oidc.issuer import Issuer
        from controlplane.outgoing import AddressPolicy

        registration = self.registration(base_url)
        if registration is None:
            return None
        allowed = AddressPolicy.of(self.oidc_allow, "oidc_allow").allowed
        try:
            tls = None if self.oidc_ca_file is None else ssl.create_default_context(cafile=self.oidc_ca_file)
        except (OSError, ssl.SSLError) as error:
            raise BadSettings(f"oidc_ca_file: {self.oidc_ca_file}: {error}", field="oidc_ca_file") from error
        return Issuer(registration, AddressPolicy((*allowed, *own)), tls)

    def _admins_second_factor(self) -> "SecondFactor | None":
        from controlplane.auth.oidc.second_factor import SecondFactor

        given = {"oidc_admin_amr": self.oidc_admin_amr, "oidc_admin_acr": self.oidc_admin_acr}
        for field, values in given.items():
            # An empty one would be what an ID token says that says nothing.
            if not all(value and not any(letter.isspace() for letter in value) for value in values):
                raise BadSettings(f"{field}: wants values with commas between, without spaces", field=field)
        return SecondFactor(frozenset(self.oidc_admin_amr), self.oidc_admin_acr) if any(given.values()) else None

    def _client_secret(self) -> str | None:
        if self.oidc_client_secret_file is None:
            return None
        from controlplane.serving import owned_files

        field, path = "oidc_client_secret_file", self.oidc_client_secret_file
        found = owned_files.read(path, field, mounted=True)
        if found is None:
            raise BadSettings(f"{field}: there is no file {path}", field=field)
        secret = found.strip()
        if not secret:
            raise BadSettings("oidc_client_secret_file: is empty", field="oidc_client_secret_file")
        return secret
