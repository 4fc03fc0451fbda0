"""HTTP requests of the service to others' servers, which may be slow, broken or hostile."""

from controlplane.outgoing.exchange import Answer, DeadlineExceeded, exchange, new_client
from controlplane.outgoing.retry_after import retry_after_s

__all__ = ["Answer", "DeadlineExceeded", "exchange", "new_client", "retry_after_s"]
