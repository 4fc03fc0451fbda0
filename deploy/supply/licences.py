"""The licence of each locked distribution, as an SPDX expression, and which ones Tailwright may stand on.

A distribution says its own (`License-Expression`, else a classifier of one meaning). KNOWN has it for those that leave
it open or are not installed here: from their licence files, and from the metadata of their wheels.
"""

from functools import cache
from importlib import metadata

from license_expression import Licensing, get_spdx_licensing
from packaging.utils import NormalizedName

NVIDIA = "LicenseRef-NVIDIA-Proprietary"

KNOWN = {
    "axe-playwright-python": "MIT AND MPL-2.0",  # The second: axe-core, which it carries.
    "cuda-bindings": "Apache-2.0",
    "cuda-pathfinder": "Apache-2.0",
    "cuda-toolkit": NVIDIA,  # Names the others, and holds nothing.
    "grimp": "BSD-2-Clause",
    "import-linter": "BSD-2-Clause",
    "jinja2": "BSD-3-Clause",
    "kubernetes-validate": "Apache-2.0",
    "mpmath": "BSD-3-Clause",
    "nvidia-ml-py": "BSD-3-Clause",
    "nvidia-nvtx": "Apache-2.0",
    "protobuf": "BSD-3-Clause",
    "scipy": "BSD-3-Clause",
    "sniffio": "MIT OR Apache-2.0",
    "sympy": "BSD-3-Clause",
    "transformers": "Apache-2.0",
    "triton": "MIT",
    "trustme": "MIT OR Apache-2.0",
    "uvloop": "MIT OR Apache-2.0",
}

CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""Those that mean one licence; "BSD License" does not."""

PERMISSIVE = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSD-3-Clause-Attribution",
    "BSL-1.0",
    "CC0-1.0",
    "CNRI-Python",
    "ISC",
    "MIT",
    "MIT-0",
    "OLDAP-2.8",
    "PSF-2.0",
    "PostgreSQL",
    "Zlib",
}
"""What any distribution may come under."""

EXCEPTIONS = {
    "MPL-2.0": "Copyleft of single files: changed ones would have to be published. None is changed.",
    "LGPL-3.0-only": "psycopg: a library loaded as it is, which anybody may replace. PostgreSQL alone needs it.",
    "LGPL-2.1-or-later": "Shared libraries inside wheels of NumPy, SciPy and psycopg, replaceable as files.",
    "GPL-3.0-or-later WITH GCC-exception-3.1": "GCC's run-time library in NumPy's and SciPy's wheels: the exception.",
    NVIDIA: "CUDA's libraries, which PyPI's build of torch wants; theirs to redistribute. A CPU build has none.",
}
"""What else is there, and why it may be."""


class UnknownLicence(ValueError):
    """No licence is known of a distribution; the message names it and the mend."""


def licence_of(name: NormalizedName) -> str:
    """The distribution's SPDX expression. Raises UnknownLicence."""
    if name in KNOWN:
        return KNOWN[name]
    if name.startswith("nvidia-"):
        return NVIDIA
    try:
        told = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        raise UnknownLicence(f"{name} is not installed here: name its licence in KNOWN ({__name__})") from None
    if "License-Expression" in told:
        return told["License-Expression"]
    classes = {line.split(" :: ")[-1] for line in told.get_all("Classifier") or [] if line.startswith("License :: OSI")}
    known = {CLASSIFIERS[line] for line in classes if line in CLASSIFIERS}
    stated = known or set(told.get_all("License") or [""])
    if len(stated) != 1 or not parts(*stated):
        raise UnknownLicence(f"{name} says {sorted(stated | classes)}: name its licence in KNOWN ({__name__})")
    return stated.pop()


def parts(expression: str) -> set[str]:
    """The licences in an SPDX expression, each with its exception; none for what is no such expression."""
    if expression == NVIDIA:
        return {NVIDIA}
    if not expression or _licensing().validate(expression).errors:
        return set()
    return {str(symbol) for symbol in _licensing().parse(expression).symbols}


@cache
def _licensing() -> Licensing:
    return get_spdx_licensing()
