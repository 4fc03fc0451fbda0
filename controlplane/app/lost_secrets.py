"""What is to be done when the file of keys is lost: remove what nobody can read any more, and begin with another."""

from datetime import datetime

from controlplane import ledger
from controlplane.alerts import store as alerts
from controlplane.alerts.tables import DestinationRow
from controlplane.app.tables import all_tables
from controlplane.auth import browser_sessions
from controlplane.auth.personal import own_data
from controlplane.auth.tables import FleetSecretRow
from controlplane.db.database import Database
from controlplane.keys import Keyring, Undecryptable, reencryption
from controlplane.rollouts.hooks import store as hooks
from controlplane.rollouts.hooks.tables import RolloutHookRow
from controlplane.studies.prompt_sets import prompt_set_store
from controlplane.studies.tables import PromptSetRow

AFTERWARDS = {
    "workload_key": "agents that enrol from now on get another",
    "person_key": "whoever signs in from now on is somebody new",
}


def forget(database: Database, keyring: Keyring, now: datetime, *, only_name: bool) -> list[str]:
    """Remove every destination, hook, fleet secret, session, person and prompt set that cannot be decrypted, in one
    transaction; what they were.

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
            removed.append(f"{name}: {AFTERWARDS[str(name)]}")
            if not only_name:
                session.delete(session.get_one(FleetSecretRow, name))
        for number in sorted(unreadable.get("browser_session", ())):
            removed.append(f"session {number}: its browser signs in anew")
            if not only_name:
                browser_sessions.end(session, int(number))
        for number in sorted(unreadable.get("person", ())):
            removed.append(f"person {number}: at the next sign-in somebody new")
            if not only_name:
                own_data.forget(session, int(number), actor=ledger.SERVICE, now=now)
        for number in sorted(unreadable.get("prompt_set", ())):
            name = session.get_one(PromptSetRow, number).name
            removed.append(f"prompt set {name!r}: add it anew")
            if not only_name:
                prompt_set_store.remove(session, name, actor=ledger.SERVICE, now=now)
        if not only_name and (row.key_id is None or keyring.find(row.key_id) is None):
            row.key_id = next(iter(keyring.key_ids), None) or keyring.add()
            session.add(row)
            said = f"secrets whose key was lost are removed; the key is {row.key_id} now"
            ledger.append(session, now, ledger.SERVICE, "secrets.forgotten", reencryption.SUBJECT, said)
    return removed
