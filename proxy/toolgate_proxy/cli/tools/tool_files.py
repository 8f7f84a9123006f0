"""Tools in JSON files, in all forms that clients and servers write them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...admin.tools import UnknownForm, read_document
from ..output import CommandFailed

STDIN = Path("-")


@dataclass
class ToolFiles:
    tools: list[dict[str, Any]] = field(default_factory=list)
    """In the form of chat completions."""
    skipped: list[str] = field(default_factory=list)
    """Hosted tools, one sentence each."""


def read_tools(paths: Iterable[Path]) -> ToolFiles:
    """Read the tools in JSON files. A file has a tool, a list of tools, a request with `tools`, the
    result of MCP's `tools/list`, a list of these, or one of them on each line. Raises
    CommandFailed, which names the file and the place of an unknown form."""
    found = ToolFiles()
    for path in paths:
        name = "standard input" if path == STDIN else str(path)
        try:
            read = read_document(_parsed(path, name))
        except UnknownForm as error:
            raise CommandFailed(f"{_place(name, error.place)}: {error}") from error
        found.tools += read.tools
        found.skipped += [
            f"{_place(name, place)}: skipped the hosted tool {kind!r}, which has no schema."
            for place, kind in read.hosted
        ]
    if not found.tools:
        raise CommandFailed("The files contain no tools.")
    return found


def _place(name: str, pointer: str) -> str:
    return f"{name}, {pointer}" if pointer else name


def json_lines(text: str) -> list[str]:
    """Return the lines of a text that are not empty. Only "\\n" ends one: `splitlines` also splits
    at other separators, which JSON texts may have."""
    return [line for line in text.split("\n") if line.strip()]


def _parsed(path: Path, name: str) -> Any:
    try:
        text = sys.stdin.read() if path == STDIN else path.read_text(encoding="utf-8-sig")
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            lines = json_lines(text)
            if error.msg != "Extra data" or len(lines) < 2:
                raise
            return [json.loads(line) for line in lines]
    except OSError as error:
        raise CommandFailed(f"{name} can't be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise CommandFailed(f"{name} is not valid JSON: {error}.") from error
