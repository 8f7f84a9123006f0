from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from toolgate_proxy.fetching.public_fetch import is_public

NETWORKS = (
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12 "
    "192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 "
    "203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 2001::/23 2001:db8::/32 2002::/16 3fff::/20"
)
"""Of IANA's registries of special-purpose addresses, and Azure's host services."""


@pytest.mark.parametrize("network", NETWORKS.split())
def test_first_and_last_address_of_a_special_network_are_not_public(network: str) -> None:
    assert not is_public(ip_network(network)[0])
    assert not is_public(ip_network(network)[-1])


@pytest.mark.parametrize(
    "address",
    [
        "192.0.0.8",
        "192.0.0.192",  # a cloud's metadata service, global for Python 3.11
        "192.0.0.255",
        "168.63.129.16",  # Azure's host services
        "192.88.99.1",
        "255.255.255.255",
        "::",
        "::1",
        "::10.0.0.1",
        "::8.8.8.8",
        "::ffff:10.0.0.1",
        "::ffff:0:8.8.8.8",
        "64:ff9b::a00:1",
        "64:ff9b:1::1",
        "100::1",
        "2001:0:4136:e378::",
        "2002:a00:1::",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "4000::1",
        "2606:4700::1111%eth0",
        "::ffff:8.8.8.8%1",
    ],
)
def test_addresses_that_are_special_or_have_a_zone_are_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "192.0.1.1", "223.255.255.255", "2606:4700::1111", "::ffff:8.8.8.8"]
)
def test_ordinary_addresses_are_public(address: str) -> None:
    assert is_public(ip_address(address))
