"""The conversations written by hand, read from `data/handwritten.txt`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache

from .dialogue import Assistant, Dialogue, Results, Turn, User
from .kinds import Schema
from .tools import Call, Tool
from .words import DATA


@dataclass(frozen=True)
class Handwritten:
    section: str
    tools: tuple[Tool, ...]
    turns: tuple[Turn, ...]
    """Up to what is asked of the model."""
    calls: tuple[Call, ...]
    holds: tuple[str, ...]
    """What a sentence after a result must hold."""

    def dialogue(self) -> Dialogue:
        return Dialogue("handwritten", self.tools, (*self.turns, Assistant("", self.calls)))


@cache
def conversations() -> list[Handwritten]:
    """Raises ValueError on a line that is of no known kind."""
    found: list[Handwritten] = []
    text = (DATA / "handwritten.txt").read_text(encoding="utf-8")
    for part in text.split("\n=== ")[1:]:
        blocks = [block.splitlines() for block in part.split("\n\n") if block.strip()]
        section = blocks[0][0]
        tools = tuple(parse(line) for line in blocks[0][1:] if not re.match(r"[UARSN]( |$)", line))
        blocks[0] = blocks[0][1 + len(tools) :]
        found += [_conversation(section, tools, lines) for lines in blocks]
    return found


@cache
def messages() -> frozenset[str]:
    """What the users say: kept out of the training."""
    return frozenset(
        turn.text for each in conversations() for turn in each.turns if isinstance(turn, User)
    )


def _conversation(section: str, tools: tuple[Tool, ...], lines: list[str]) -> Handwritten:
    turns: list[Turn] = []
    calls: list[Call] = []
    results: list[str] = []
    holds: tuple[str, ...] = ()

    def close() -> None:
        if calls and results:
            turns.extend((Assistant("", tuple(calls)), Results(tuple(results))))
            calls.clear()
            results.clear()

    for line in lines:
        mark, _, rest = line.partition(" ")
        call = re.fullmatch(r"(\w+) (\{.*\})", rest)
        if mark == "U":
            close()
            turns.append(User(rest))
        elif mark == "A" and call:
            calls.append(Call(call[1], json.loads(call[2])))
        elif mark == "A":
            close()
            turns.append(Assistant(rest))
        elif mark == "R":
            results.append(rest)
        elif mark == "S":
            close()
            holds = tuple(rest.split("|"))
        elif mark != "N":
            raise ValueError(f"handwritten.txt: {line!r}")
    return Handwritten(section, tools, tuple(turns), tuple(calls), holds)


def parse(line: str) -> Tool:
    """`description: name(arg, arg?: kind)` as a tool: what `dialogue.line` writes, read back."""
    head = re.match(r"(?:(.*?): )?([\w-]+)\(", line)
    if head is None:
        raise ValueError(f"not a tool: {line!r}")
    end = _closing(line, head.end() - 1)
    schema = _object(line[head.end() : end])
    return Tool(head[2], head[1] or "", schema["properties"], tuple(schema["required"]))


def _closing(text: str, begin: int) -> int:
    depth = 0
    for index in range(begin, len(text)):
        depth += (text[index] in "([{") - (text[index] in ")]}")
        if depth == 0:
            return index
    raise ValueError(f"never closed: {text!r}")


def _object(text: str) -> Schema:
    properties: dict[str, Schema] = {}
    required = []
    while text:
        name = re.match(r"(\w+)(\??)(: )?", text)
        if name is None:
            raise ValueError(f"not an argument: {text!r}")
        text = text[name.end() :]
        kind = "string"
        if name[3]:
            end = _closing(text, 0) + 1 if text[0] in "[{" else len(text.partition(", ")[0])
            kind, text = text[:end], text[end:]
        properties[name[1]] = _schema(kind)
        if not name[2]:
            required.append(name[1])
        text = text.removeprefix(", ")
    return {"type": "object", "properties": properties, "required": required}


def _schema(kind: str) -> Schema:
    if kind.startswith("["):
        item, _, exact = (
            kind[1:-1].partition("*") if not kind.startswith("[{") else (kind[1:-1], "", "")
        )
        schema: Schema = {"type": "array", "items": _schema(item)}
        return schema | ({"minItems": int(exact), "maxItems": int(exact)} if exact else {})
    if kind.startswith("{"):
        return _object(kind[1:-1])
    return {"type": "string", "enum": kind.split("|")} if "|" in kind else {"type": kind}
