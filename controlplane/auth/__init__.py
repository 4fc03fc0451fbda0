"""Bearer tokens with scopes, hashed at rest."""

from controlplane.auth.guard import Admin, AgentAccess, Enroller, Operator, Principal, Reader

__all__ = ["Admin", "AgentAccess", "Enroller", "Operator", "Principal", "Reader"]
