"""Which peers' word is taken for who asks: addresses and networks, `*` for all."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

EVERYBODY = "*"


@dataclass(frozen=True)
class Proxies:
    """As uvicorn reads `forwarded_allow_ips`; of names, which it would never match, it holds none."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    everybody: bool = False

    @classmethod
    def of(cls, words: Iterable[str]) -> "Proxies":
        """Raises ValueError that names what is neither an address nor a network."""
        found = [word.strip() for word in words if word.strip()]
        if EVERYBODY in found and found != [EVERYBODY]:
            raise ValueError(f"{EVERYBODY} stands alone")
        return cls(tuple(ip_network(word) for word in found if word != EVERYBODY), EVERYBODY in found)

    def __contains__(self, address: object) -> bool:
        if self.everybody:
            return True
        try:
            found = ip_address(str(address))
        except ValueError:  # A Unix socket's peer has none.
            return False
        return any(found in network for network in self.networks)
