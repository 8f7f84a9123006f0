"""Checks of names and addresses in LiteLLM's configuration file.

LiteLLM ignores a misspelt field. So does it an address without a scheme, until the first request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches

import yaml

from ..litellm_host.config_fields import ConfigFields
from .config_nodes import ENVIRONMENT, Finding, get, line_of, members_of, text_of

NEAR = 0.87
"""Similarity from which a name counts as misspelt. LiteLLM reads some fields that it does not
declare, so other names are not refused."""
SIMILAR = 0.6
"""Similarity from which a name is suggested for another that has no effect."""
SCHEMES = ("http://", "https://")


def misspelt(root: yaml.Node | None, fields: ConfigFields) -> Iterator[Finding]:
    for section, known in (
        ("general_settings", fields.general),
        ("router_settings", fields.router),
        ("litellm_settings", fields.litellm),
    ):
        yield from _misspelt(section, get(root, section), known)


def without_effect(root: yaml.Node | None, fields: ConfigFields) -> Iterator[Finding]:
    """Fields that LiteLLM ignores. It reads more fields of `general_settings` than it declares, so
    those are not reported."""
    for section, known in (
        ("router_settings", fields.router),
        ("litellm_settings", fields.litellm),
    ):
        for name, _ in members_of(get(root, section)):
            if (given := text_of(name)) not in known:
                near = get_close_matches(given, known, n=1, cutoff=SIMILAR)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                message = f"`{section}.{given}` is not known to LiteLLM: it has no effect.{hint}"
                yield Finding(line_of(name), message)


def wrong_params(
    params: yaml.Node | None, fields: ConfigFields, environment: Mapping[str, str]
) -> Iterator[Finding]:
    """Of the `litellm_params` of a Toolgate model."""
    yield from _misspelt("litellm_params", params, fields.params)
    node = get(params, "api_base")
    address, source = text_of(node), "`api_base`"
    if address.startswith(ENVIRONMENT):
        variable = address.removeprefix(ENVIRONMENT)
        address, source = environment.get(variable, ""), f"`api_base` ({variable})"
        if not address:
            return  # the default is TOOLGATE_BACKEND_URL
    if node is not None and not address.startswith(SCHEMES):
        yield Finding(
            line_of(node),
            f"{source} is {address!r}, which has no scheme. Write http://{address} or https://….",
        )


def _misspelt(section: str, node: yaml.Node | None, known: Collection[str]) -> Iterator[Finding]:
    for name, _ in members_of(node):
        given = text_of(name)
        meant = () if given in known else get_close_matches(given, known, n=1, cutoff=NEAR)
        for other in meant:
            message = f"`{section}` has no field {given!r}. Did you mean {other!r}?"
            yield Finding(line_of(name), message)
