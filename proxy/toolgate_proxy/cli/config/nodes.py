"""Nodes of LiteLLM's configuration file, and what is found at their lines."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

import yaml

ENVIRONMENT = "os.environ/"
"""Beginning of a value that LiteLLM reads from an environment variable."""
PROVIDER = "toolgate/"
"""Beginning of the name of a Toolgate model."""


@dataclass(frozen=True)
class Finding:
    node: yaml.Node | None
    message: str

    @property
    def line(self) -> int:
        return self.node.start_mark.line + 1 if self.node is not None else 1


def get(node: yaml.Node | None, *names: str) -> yaml.Node | None:
    for name in names:
        node = next((value for key, value in members_of(node) if key.value == name), None)
    return node


def items_of(node: yaml.Node | None) -> list[yaml.Node]:
    """Return the items of a list, and nothing for anything else."""
    return node.value if isinstance(node, yaml.SequenceNode) else []


def members_of(node: yaml.Node | None) -> list[tuple[yaml.Node, yaml.Node]]:
    """Return the names and values of a mapping, and nothing for anything else."""
    return node.value if isinstance(node, yaml.MappingNode) else []


def scalars(node: yaml.Node | None, name: str = "") -> Iterator[tuple[str, yaml.Node]]:
    """Yield all scalars in a node, with the names of their fields."""
    for key, value in members_of(node):
        yield from scalars(value, str(key.value))
    for value in items_of(node):
        yield from scalars(value, name)
    if isinstance(node, yaml.ScalarNode):
        yield name, node


def text_of(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def is_true(node: yaml.Node | None) -> bool:
    return text_of(node).lower() == "true"


def params_of(root: yaml.Node | None, *, toolgate: bool) -> Iterator[yaml.Node]:
    """Yield the `litellm_params` of Toolgate's models, or of all others."""
    for model in items_of(get(root, "model_list")):
        params = get(model, "litellm_params")
        if params and text_of(get(params, "model")).startswith(PROVIDER) == toolgate:
            yield params


def meant(name: str, known: Collection[str], similarity: float) -> str:
    """Return a question for the name that was probably meant, after a space, or nothing."""
    near = get_close_matches(name, known, n=1, cutoff=similarity)
    return f" Did you mean {near[0]!r}?" if near else ""
