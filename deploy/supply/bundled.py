"""What distributions and the checkout itself carry of others' work, or of data, which no lock file names."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Carried:
    """A carried thing: its name, SPDX licence expression, CycloneDX type, and version where the carrier says one."""

    name: str
    licence: str
    kind: str = "library"
    version: str | None = None


GCC_RUNTIME = "GPL-3.0-or-later WITH GCC-exception-3.1"
_NUMERIC = (Carried("libgfortran", GCC_RUNTIME), Carried("libquadmath", "LGPL-2.1-or-later"))

SCRIPTS = {
    "fastapi-offline": (Carried("swagger-ui", "Apache-2.0", version="5.32.6"), Carried("redoc", "MIT")),
}
"""Scripts for browsers by the distribution that brings them: Tailwright serves them itself."""

NATIVE = {
    "numpy": (*_NUMERIC, Carried("libscipy_openblas64_", "BSD-3-Clause")),
    "scipy": (*_NUMERIC, Carried("libscipy_openblas", "BSD-3-Clause")),
    "psycopg-binary": (
        Carried("libpq", "PostgreSQL"),
        Carried("libssl", "Apache-2.0"),
        Carried("libcrypto", "Apache-2.0"),
        Carried("libgssapi_krb5", "MIT"),
        Carried("libkrb5", "MIT"),
        Carried("libkrb5support", "MIT"),
        Carried("libk5crypto", "MIT"),
        Carried("libcom_err", "MIT"),
        Carried("libldap", "OLDAP-2.8"),
        Carried("liblber", "OLDAP-2.8"),
        Carried("libsasl2", "BSD-3-Clause-Attribution"),
        Carried("libcrypt", "LGPL-2.1-or-later"),
        Carried("libkeyutils", "LGPL-2.1-or-later"),
    ),
}
"""Shared libraries that wheels hold in their `.libs` folder (the names before the hash), by distribution."""

CHECKOUT = (
    Carried("web/static/vendor/htmx.min.js", "0BSD", version="4.0.1"),
    Carried("web/static/vendor/hx-sse.min.js", "0BSD", version="4.0.1"),
    Carried("agents/models/tailwright-py-5m/model.safetensors", "Apache-2.0", "machine-learning-model"),
    Carried("agents/models/tailwright-py-5m-draft/model.safetensors", "Apache-2.0", "machine-learning-model"),
)
"""Files of others and data in the checkout, by path. Nothing else under web/static is others' work: a test looks for
signs of it.
"""


def carried_by(name: str) -> tuple[Carried, ...]:
    """All that the distribution `name` brings of others' work, as far as it is known."""
    return (*SCRIPTS.get(name, ()), *NATIVE.get(name, ()))
