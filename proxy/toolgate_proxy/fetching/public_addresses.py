"""Which IP addresses are public, by IANA's registries of special-purpose addresses.

Python's `is_global` treats some special addresses as public: 192.0.0.192, the metadata service of a
cloud, is one. The lists below are explicit, so they do not depend on the Python release.
Sources: www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

NOT_PUBLIC_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carrier-grade NAT
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # services of Azure's hosts, an address that is in no registry
            "169.254.0.0/16",  # link-local, and clouds' metadata services
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments, and a cloud's metadata service
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays, deprecated
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
GLOBAL_UNICAST = IPv6Network("2000::/3")
"""All other IPv6 addresses are loopback, local, multicast, translated or unassigned."""
NOT_PUBLIC_V6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, Teredo among them
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4: contains an IPv4 address
            "3fff::/20",  # documentation
        ),
    )
)


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """An IPv4-mapped IPv6 address counts as its IPv4 address. An address with a zone (`%eth0`) is
    one of a single link."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in NOT_PUBLIC_V4)
    if address.scope_id is not None:
        return False
    if address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    special = any(address in network for network in NOT_PUBLIC_V6)
    return address in GLOBAL_UNICAST and not special
