"""What the first commands with a service hold, seen from the machine that it runs on."""

import shutil
import sys
from pathlib import Path

from controlplane.api.first_steps import MODEL, NODE, Place
from controlplane.app.secrets_files import DASHBOARD, ENROLMENT
from controlplane.app.settings import ServiceSettings
from controlplane.terminal.checkout import ROOT


def place_of(settings: ServiceSettings) -> Place:
    """Whole paths, so that the commands do from any folder."""
    data_dir, model = settings.data_dir.resolve(), ROOT / MODEL
    return Place(
        settings.public_url,
        enrolment_token_file=data_dir / ENROLMENT.filename,
        read_token_file=data_dir / DASHBOARD.filename,
        program=_program(),
        model=model if model.is_dir() else MODEL,
        folder=Path("agent-state") / NODE,
    )


def _program() -> str:
    """As it is called here: beside this interpreter, where no folder of PATH has it."""
    beside = Path(sys.executable).with_name("tailwright")
    return "tailwright" if shutil.which("tailwright") or not beside.is_file() else str(beside)
