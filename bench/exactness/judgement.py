"""One schema under the masks of one engine: valid texts that are refused, and invalid ones that are
allowed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import jsonschema
import jsonschema_rs

from bench.exactness.cases import Case, neighbours, small_values
from bench.exactness.engines import Engines, Masks
from tests.support.schemas.judge import CANONICAL, COMPACT, Form, Text, cause_of, written
from toolgate_core.schema.walk import subschemas

MAX_TEXT = 6_000
"""Longest text of an instance, in bytes."""
WALK_TOKENS = 160
CLOSERS = frozenset(b'"}],')
CLOSING = 0.6
"""Probability that a walk takes a token that brings its text to an end, where one is allowed."""


@dataclass
class Found:
    """A wrong decision. `pointer` is in the instance."""

    side: str
    """`forbidden` or `allowed`"""
    form: str
    kind: str
    keyword: str
    pointer: str
    text: str


@dataclass
class Judgement:
    engine: str
    inside: str = ""
    residual: bool = False
    valid: dict[str, int] = field(default_factory=dict)
    """By form: valid texts of instances."""
    valid_values: int = 0
    """Valid values among the neighbours and small values."""
    invalid_values: int = 0
    walks: int = 0
    unended: int = 0
    found: list[Found] = field(default_factory=list)
    disputed: int = 0
    """Texts of which the two validators say different things."""

    def data(self) -> dict[str, Any]:
        return asdict(self)


class Judge:
    """Judges one schema with one engine. `counts`: neighbours of each instance, and walks."""

    def __init__(self, case: Case, engine: str, seed: int, *, counts: tuple[int, int]) -> None:
        self._case = case
        self._dice = random.Random(f"{seed} {case.id}")  # the same values for every engine
        self._neighbours, self._walks = counts
        self._check = jsonschema_rs.validator_for(case.canonical, validate_formats=True)
        self._second = jsonschema.Draft202012Validator(case.canonical)
        self.judgement = Judgement(engine)
        self.valid_instances = [v for v in case.instances if self._check.is_valid(v)]

    def texts(self, engines: Engines, masks: Masks) -> None:
        """Judge instances in all forms, their neighbours and small values."""
        found = self.judgement
        found.inside, found.residual = masks.engine, masks.residual
        allowed: list[Any] = []
        for value in self.valid_instances:
            mixed = shuffled(value, random.Random(0))  # the same for every engine
            for name, each, form in (
                ("given", value, Form()),
                ("shuffled", mixed, Form()),
                ("compact", value, COMPACT),
            ):
                if len(written(each, form, self._case.canonical).data) > MAX_TEXT:
                    continue
                found.valid[name] = found.valid.get(name, 0) + 1
                self._forbidden(engines, masks, each, form, name)
        for value in self._others():
            text = written(value, CANONICAL, self._order(masks))
            if len(text.data) > MAX_TEXT:
                continue
            if self._check.is_valid(value):
                found.valid_values += 1
                self._forbidden(engines, masks, value, CANONICAL, "neighbour")
            else:
                found.invalid_values += 1
                if _refused_at(engines, masks, text) is None:
                    allowed.append(value)
        for value in allowed:
            self._allowed("neighbour", value, written(value, CANONICAL, None).data)

    def walks(self, engines: Engines, masks: Masks) -> None:
        """Leave instances at random tokens, and go on at random."""
        found = self.judgement
        for at in range(self._walks):
            if not self.valid_instances:
                data = b""
            else:
                data = written(self._dice.choice(self.valid_instances), Form(), None).data
            text = self._walk(engines, masks, data[: self._dice.randrange(min(len(data), 400) + 1)])
            found.walks += 1
            if text is None:
                found.unended += 1
                continue
            if text == b"":
                found.found.append(Found("allowed", "walk", "dead end", "", "", str(at)))
                continue
            try:
                value = json.loads(text)
            except ValueError:
                shown = text.decode(errors="replace")[:200]
                found.found.append(Found("allowed", "walk", "not JSON", "", "", shown))
                continue
            if not self._is_valid(value):
                self._allowed("walk", value, text)

    def _others(self) -> Iterator[Any]:
        names = [
            name
            for _, node in subschemas(self._case.canonical)
            if isinstance(node, dict)
            for name in node.get("properties", ())
        ]
        yield from small_values(list(dict.fromkeys(names)), self._neighbours, self._dice)
        for value in self._case.instances:
            yield value
            yield from neighbours(value, self._neighbours, self._dice)

    def _order(self, masks: Masks) -> dict[str, Any]:
        return masks.ordering or self._case.canonical

    def _is_valid(self, value: Any) -> bool:
        try:
            return bool(self._check.is_valid(value))
        except ValueError:
            return False  # a number that is no finite double

    def _forbidden(self, engines: Engines, masks: Masks, value: Any, form: Form, name: str) -> None:
        cause = cause_of(
            value, form, self._order(masks), lambda text: _refused_at(engines, masks, text)
        )
        if cause is not None:
            shown = written(value, form, self._order(masks)).data.decode(errors="replace")[:200]
            self.judgement.found.append(
                Found("forbidden", name, cause.kind, cause.keyword, cause.pointer, shown)
            )

    def _allowed(self, form: str, value: Any, text: bytes) -> None:
        """A wrongly allowed text, with the keyword by both validators. Formats and numbers that are
        no finite double are judged by the first one only."""
        keyword, pointer = "", ""
        try:
            error = next(iter(self._check.iter_errors(value)))
            names = [step for step in error.schema_path if isinstance(step, str)]
            keyword = names[-1] if names else ""
            pointer = "".join(f"/{step}" for step in error.instance_path)
        except (StopIteration, ValueError):
            keyword = "type"
        if keyword != "format" and self._second.is_valid(value):
            self.judgement.disputed += 1
            return
        shown = text.decode(errors="replace")[:200]
        self.judgement.found.append(Found("allowed", form, "keyword", keyword, pointer, shown))

    def _walk(self, engines: Engines, masks: Masks, prefix: bytes) -> bytes | None:
        """The text of a walk; None if it did not end, empty at a dead end."""
        vocabulary = engines.vocabulary
        walk = masks.start()
        for token in vocabulary.encode(masks.before):
            walk.accept(token)
        data = bytearray()
        for byte in prefix:
            if not walk.accept(engines.byte_tokens[byte]):
                break
            data.append(byte)
        for _ in range(WALK_TOKENS):
            if walk.complete():
                end = len(data) - len(masks.after.encode())
                return bytes(data[:end])
            allowed = walk.allowed()
            if not allowed.size:
                return b""
            texts = {int(token): vocabulary.token_bytes[token] for token in allowed}
            closing = [token for token, text in texts.items() if text[0] in CLOSERS]
            some = closing if closing and self._dice.random() < CLOSING else list(texts)
            token = self._dice.choice(some)
            if not walk.accept(token):
                return b""
            data += texts[token]
        return None


def shuffled(value: Any, dice: random.Random) -> Any:
    """Return a value with the members of its objects in another order."""
    if isinstance(value, dict):
        names = list(value)
        dice.shuffle(names)
        return {name: shuffled(value[name], dice) for name in names}
    if isinstance(value, list):
        return [shuffled(item, dice) for item in value]
    return value


def _refused_at(engines: Engines, masks: Masks, text: Text) -> int | None:
    """The first byte that is refused; None if the text is allowed."""
    try:
        whole = masks.before + text.data.decode() + masks.after
    except UnicodeDecodeError:  # a lone surrogate, which no token spells
        return 0
    vocabulary = engines.vocabulary
    walk = masks.start()
    last = max(0, len(text.data) - 1)
    offset = -len(masks.before.encode())
    for token in engines.encode(whole):
        spelled = vocabulary.token_bytes[token]
        if not walk.accept(token):
            for byte in spelled:  # a refused token leaves the state unchanged
                if not walk.accept(engines.byte_tokens[byte]):
                    break
                offset += 1
            return max(0, min(offset, last))
        offset += len(spelled)
    return None if walk.complete() else last
