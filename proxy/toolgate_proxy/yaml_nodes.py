"""Reading of YAML files as nodes, which have lines, within limits."""

from __future__ import annotations

from typing import Any

import yaml

MAX_NODES = 1_000_000
"""Maximum number of values once all aliases are replaced. A few lines of nested aliases would
otherwise take hours to read."""


class InvalidYaml(Exception):
    """`line` and `problem`, which quotes nothing of the file: it may contain keys."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


def compose(text: str) -> yaml.Node | None:
    """The root; None for an empty file. Raises InvalidYaml."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InvalidYaml(line, str(error.problem)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InvalidYaml(line, f"a character is not allowed ({error.reason})") from None
    except (RecursionError, ValueError):  # ValueError: a number that Python can't convert
        raise InvalidYaml(1, "it is nested too deeply, or has an invalid number") from None
    if root is not None:
        _check_size(root)
    return root


def construct(node: yaml.Node) -> Any:
    """The value of a node. Raises InvalidYaml."""
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    # PyYAML lets the errors of its conversions through: `!!int x`, `!!bool x`, `!!timestamp x`.
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError):
        problem = "a value has an unknown tag, or is not of the type of its tag"
        raise InvalidYaml(node.start_mark.line + 1, problem) from None
    finally:
        loader.dispose()


def _check_size(root: yaml.Node) -> None:
    sizes: dict[int, int] = {}
    """Number of values by node; 0 while it is being counted."""

    def size(node: yaml.Node) -> int:
        if id(node) in sizes:
            if not sizes[id(node)]:
                raise InvalidYaml(node.start_mark.line + 1, "an alias refers to itself")
            return sizes[id(node)]
        sizes[id(node)] = 0
        children: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            children = node.value
        elif isinstance(node, yaml.MappingNode):
            children = [part for pair in node.value for part in pair]
        count = 1 + sum(map(size, children))
        if count > MAX_NODES:
            problem = f"it has more than {MAX_NODES:,} values once its aliases are replaced"
            raise InvalidYaml(node.start_mark.line + 1, problem)
        sizes[id(node)] = count
        return count

    try:
        size(root)
    except RecursionError:
        raise InvalidYaml(1, "it is nested too deeply") from None
