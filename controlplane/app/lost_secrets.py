"""What is to be done when the file of keys is lost: remove what nobody can read any more, and begin with another."""

from datetime import datetime

from controlplane import ledger
from controlplane.alerts import store as alerts
from controlplane.alerts.tables import DestinationRow
from controlplane.app.tables import all_tables
from controlplane.auth.tables import FleetSecretRow
from controlplane.db.database import Database
from controlplane.keys import Keyring, Undecryptable, reencryption
from controlplane.rollouts.hooks import store as hooks
from controlplane.rollouts.hooks.tables import RolloutHookRow


def forget(database: Database, keyring: Keyring, now: datetime, *, only_name: bool) -> list[str]:
    """Remove every destination, hook and fleet secret that cannot be decrypted, in one transaction; what they were.

    Nothing is removed where all can be read. A service that runs takes the new key up. Raises BadSettings.
    """
    removed = []
    with database.session() as session:
        row = reencryption.locked(session)
        unreadable = {
            one.place.table: set[int | str]() for one in reencryption.stored(session.connection(), all_tables())
        }
        for one in reencryption.stored(session.connection(), all_tables()):
            try:
                keyring.decrypt(one.place, one.text)
            except Undecryptable:
                unreadable[one.place.table].add(one.place.row)
        for number in sorted(unreadable.get("destination", ())):
            destination = session.get_one(DestinationRow, number)
            removed.append(f"destination {destination.name!r} at {destination.shown}: make it anew")
            if not only_name:
                alerts.delete_destination(session, int(number), actor=ledger.SERVICE, now=now)
        for number in sorted(unreadable.get("rollout_hook", ())):
            hook = session.get_one(RolloutHookRow, number)
            removed.append(f"hook {hook.name!r} of pool {hook.pool} at {hook.shown}: set it anew")
            if not only_name:
                hooks.remove_hook(session, int(number), actor=ledger.SERVICE, now=now)
        for name in sorted(unreadable.get("fleet_secret", ())):
            removed.append(f"{name}: agents that enrol from now on get another")
            if not only_name:
                session.delete(session.get_one(FleetSecretRow, name))
        if not only_name and (row.key_id is None or keyring.find(row.key_id) is None):
            row.key_id = next(iter(keyring.key_ids), None) or keyring.add()
            session.add(row)
            said = f"secrets whose key was lost are removed; the key is {row.key_id} now"
            ledger.append(session, now, ledger.SERVICE, "secrets.forgotten", reencryption.SUBJECT, said)
    return removed
