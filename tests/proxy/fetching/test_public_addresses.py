from __future__ import annotations

from ipaddress import ip_address

import pytest

from toolgate_proxy.fetching.public_fetch import NOT_PUBLIC_V4, NOT_PUBLIC_V6, is_public


@pytest.mark.parametrize("network", [*NOT_PUBLIC_V4, *NOT_PUBLIC_V6], ids=str)
def test_first_and_last_address_of_a_special_network_are_not_public(network: object) -> None:
    assert not is_public(network[0])  # type: ignore[index]
    assert not is_public(network[-1])  # type: ignore[index]


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
