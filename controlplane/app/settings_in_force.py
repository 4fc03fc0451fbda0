"""Which settings a running service tells: numbers and switches, never a name of a file, an address or a secret.

Pure.
"""

from controlplane.app.settings import ServiceSettings
from controlplane.contract.bodies.health import SettingInForce
from controlplane.terminal.setting_sources import settings_of

TOLD = frozenset({"INTEGER", "NUMBER", "BYTES", ""})
"""Forms of settings; a switch has none."""


def settings_in_force(settings: ServiceSettings) -> list[SettingInForce]:
    """In the order in which they are declared."""
    return [
        SettingInForce(
            name=setting.name,
            flag=setting.flag,
            value=getattr(settings, setting.name),
            is_default=getattr(settings, setting.name) == setting.field.get_default(call_default_factory=True),
            description=setting.field.description or "",
        )
        for setting in settings_of(ServiceSettings)
        if setting.form in TOLD
    ]
