"""HTTP requests of the service to others' servers, which may be slow, broken or hostile."""

from controlplane.outgoing.guarded_post import Answer, DeadlineExceeded, exchange, new_client

__all__ = ["Answer", "DeadlineExceeded", "exchange", "new_client"]
