"""Reading of YAML files as nodes, which have lines, within limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

MAX_NODES = 1_000_000
"""Maximum number of values once all aliases are replaced. A few lines of nested aliases would
otherwise take hours to read."""


class BadFile(Exception):
    """The message has the file and the line. Of what is no YAML it quotes nothing: the file may
    contain keys."""


class YamlFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    def error(self, place: yaml.Node | int, problem: str) -> BadFile:
        """`place`: a node, or the number of a line."""
        line = place if isinstance(place, int) else place.start_mark.line + 1
        return BadFile(f"{self._path}, line {line}: {problem}")

    def root(self) -> yaml.Node | None:
        """Return None for an empty file. Raises BadFile."""
        try:
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(
                f"{self._path} can't be read ({type(error).__name__}). Check its path, permissions "
                "and encoding (UTF-8)."
            ) from error
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise self._invalid(line, str(error.problem)) from None
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise self._invalid(line, f"a character is not allowed ({error.reason})") from None
        except (RecursionError, ValueError):  # ValueError: a number that Python can't convert
            problem = "it is nested too deeply, or has an invalid number"
            raise self._invalid(1, problem) from None
        if root is not None:
            self._check_size(root)
        return root

    def value(self, node: yaml.Node) -> Any:
        """Return the value of a node. Raises BadFile."""
        loader = yaml.SafeLoader("")
        try:
            return loader.construct_document(node)
        # PyYAML lets errors of its conversions through: `!!int x`, `!!bool x`, `!!timestamp x`.
        except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError):
            problem = "a value has an unknown tag, or is not of the type of its tag"
            raise self._invalid(node, problem) from None
        finally:
            loader.dispose()

    def _invalid(self, place: yaml.Node | int, problem: str) -> BadFile:
        return self.error(place, f"invalid YAML: {problem}.")

    def _check_size(self, root: yaml.Node) -> None:
        sizes: dict[int, int] = {}
        """Number of values by node; 0 while it is being counted."""

        def size(node: yaml.Node) -> int:
            if id(node) in sizes:
                if not sizes[id(node)]:
                    raise self._invalid(node, "an alias refers to itself")
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
                raise self._invalid(node, problem)
            sizes[id(node)] = count
            return count

        try:
            size(root)
        except RecursionError:
            raise self._invalid(1, "it is nested too deeply") from None
