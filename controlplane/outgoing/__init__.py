"""HTTP requests of the service to others' servers, which may be slow, broken or hostile."""

from controlplane.outgoing.addresses import ANYWHERE, AddressPolicy
from controlplane.outgoing.guarded_post import Answer, DeadlineExceeded, exchange, new_client
from controlplane.outgoing.guarded_transport import RefusedAddress

__all__ = ["ANYWHERE", "AddressPolicy", "Answer", "DeadlineExceeded", "RefusedAddress", "exchange", "new_client"]
