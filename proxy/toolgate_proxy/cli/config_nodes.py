"""Nodes of a YAML file, and what is found at their lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import yaml

ENVIRONMENT = "os.environ/"
"""Beginning of a value that LiteLLM reads from an environment variable."""


@dataclass(frozen=True)
class Finding:
    line: int
    message: str


def get(node: yaml.Node | None, *names: str) -> yaml.Node | None:
    for name in names:
        if not isinstance(node, yaml.MappingNode):
            return None
        node = next((value for key, value in node.value if key.value == name), None)
    return node


def items_of(node: yaml.Node | None) -> list[yaml.Node]:
    """The items of a list. Empty for anything else."""
    return node.value if isinstance(node, yaml.SequenceNode) else []


def members_of(node: yaml.Node | None) -> list[tuple[yaml.Node, yaml.Node]]:
    """The names and values of a mapping. Empty for anything else."""
    return node.value if isinstance(node, yaml.MappingNode) else []


def scalars(node: yaml.Node, name: str = "") -> Iterator[tuple[str, yaml.Node]]:
    """All scalars in a node, with the names of their fields."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from scalars(value, str(key.value))
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from scalars(value, name)
    else:
        yield name, node


def texts_of(node: yaml.Node | None) -> list[str]:
    return [] if node is None else [text_of(value) for _, value in scalars(node)]


def text_of(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def line_of(node: yaml.Node | None) -> int:
    return node.start_mark.line + 1 if node is not None else 1
