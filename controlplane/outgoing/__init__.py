"""HTTP requests and mail of the service to others' servers, which may be slow, broken or hostile."""

from controlplane.outgoing.addresses import ANYWHERE, LOOPBACK, NOWHERE_INSIDE, AddressPolicy
from controlplane.outgoing.guarded_mail import Envelope, MailError, Server, hand_over
from controlplane.outgoing.guarded_post import Answer, DeadlineExceeded, exchange, new_client
from controlplane.outgoing.guarded_transport import RefusedAddress

__all__ = [
    "ANYWHERE",
    "LOOPBACK",
    "NOWHERE_INSIDE",
    "AddressPolicy",
    "Answer",
    "DeadlineExceeded",
    "Envelope",
    "MailError",
    "RefusedAddress",
    "Server",
    "exchange",
    "hand_over",
    "new_client",
]
