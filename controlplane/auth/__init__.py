"""Bearer tokens with scopes, hashed at rest."""

from controlplane.auth.guard import Admin, AgentAccess, Enroller, HookReader, Operator, Poster, Reader
from controlplane.auth.principal import Principal

__all__ = ["Admin", "AgentAccess", "Enroller", "HookReader", "Operator", "Poster", "Principal", "Reader"]
