"""All dialects by name, and which of them a model has: by its chat template and tokenizer."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

from .dialect import (
    CallIds,
    Calls,
    Codec,
    Content,
    Dialect,
    FlatTags,
    GemmaValues,
    Json,
    NestedTags,
    Pythonic,
    Reasoning,
    Recognition,
    Slot,
    Switch,
)

SHAPES = {
    "object": "a JSON object with the name and the arguments, between marks",
    "array": "a JSON array of such objects",
    "name_json": "the name, then the arguments as JSON",
    "tagged": "each argument in tags; strings raw",
    "nested": "as tagged; objects and arrays are tags too",
    "gemma": "bare keys, strings between marks",
    "pythonic": "a Python call",
    "bare": "a JSON object that is the whole turn",
}

PLAIN = Dialect(name="plain", calls=None)
"""For models of no known family: all output is text."""

_PARTS: dict[str, type] = {
    "calls": Calls,
    "content": Content,
    "ids": CallIds,
    "reasoning": Reasoning,
    "recognition": Recognition,
    "switch": Switch,
}
_CODECS: dict[str, type[Codec]] = {
    "gemma": GemmaValues,
    "json": Json,
    "nested": NestedTags,
    "pythonic": Pythonic,
    "tagged": FlatTags,
}
_SLOT = re.compile(r"\{(NAME|ID|ARGUMENTS)\}")


def read_families(file: str) -> dict[str, Dialect]:
    """Return the dialects in the text of a file, by name."""
    dialects: dict[str, Dialect] = {}
    for name, row in tomllib.loads(file).items():
        other = dialects[row.pop("like")] if "like" in row else PLAIN
        dialects[name] = replace(other, name=name, **_members(row))
    return dialects


def _members(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a class in dialect.py as a table of the file has them."""
    members: dict[str, Any] = {}
    for name, value in table.items():
        if name in _CODECS:
            members["codec"] = _CODECS[name](**_members(value))
        elif name in _PARTS:
            members[name] = _PARTS[name](**_members(value)) if isinstance(value, dict) else None
        elif name == "call":
            texts = _SLOT.split(value)  # every second one is the name of a slot
            parts = [Slot[text] if at % 2 else text for at, text in enumerate(texts)]
            members[name] = tuple(part for part in parts if part)
        else:
            members[name] = _tuples(value)
    return members


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


DIALECTS: dict[str, Dialect] = {
    **read_families(resources.files(__package__).joinpath("families.toml").read_text("utf-8")),
    PLAIN.name: PLAIN,
}


def form_of(codec: Codec) -> str:
    """Return the name of a codec's form."""
    match codec:
        case Json():
            return "JSON"
        case FlatTags(types=types, cdata=cdata):
            return f"tags{' with types' * bool(types)}{' with CDATA' * cdata}"
        case NestedTags():
            return "nested tags"
        case GemmaValues():
            return "bare keys"
        case Pythonic(json_objects=json_objects):
            return f"Python calls{' with JSON objects' * json_objects}"


def _representatives() -> dict[str, str]:
    names: dict[str, str] = {}
    for name, dialect in DIALECTS.items():
        if dialect.calls is not None:
            names.setdefault(form_of(dialect.calls.codec), name)
    return names


REPRESENTATIVES = _representatives()
"""By form: the name of a dialect."""


MAX_NAMED = 5
"""Maximum number of dialects that a warning names."""


@dataclass(frozen=True)
class RecognisedDialect:
    dialect: Dialect
    reason: str
    """What was seen, in one sentence."""
    warnings: tuple[str, ...] = ()
    """What contradicts the choice, one sentence each, with what to do."""


def recognise(added_tokens: Collection[str], chat_template: str | None = None) -> RecognisedDialect:
    """The dialect whose texts the chat template has; the most specific one if there are several.

    Templates are decided by first: families share tokens more often than texts. Without a template,
    or if it has the texts of no dialect, the tokenizer's added tokens decide."""
    best = _best(lambda wanted: _in_template(wanted, chat_template or ""))
    if best:
        reason = f"the chat template has {_listed(best[0].recognition.template)}"
        return RecognisedDialect(best[0], reason, _ambiguous("chat template fits", best))
    added = frozenset(added_tokens)
    best = _best(lambda wanted: len(wanted.tokens) * added.issuperset(wanted.tokens))
    if not best:
        reason = "no text or token of a known dialect was found"
        return RecognisedDialect(PLAIN, reason, _plain(chat_template))
    warnings = _ambiguous("tokens of the tokenizer fit", best)
    if chat_template:
        warnings += (
            f"The chat template has the texts of no known dialect, and {best[0].name} was chosen "
            "by the tokenizer alone. Set TOOLGATE_DIALECT if the model writes calls in another "
            "form.",
        )
    reason = f"the tokenizer has {_listed(best[0].recognition.tokens)}"
    return RecognisedDialect(best[0], reason, warnings)


def _best(features: Callable[[Recognition], int]) -> list[Dialect]:
    """Return the dialects with most features that were seen, none if none has any."""
    seen = {name: features(each.recognition) for name, each in DIALECTS.items()}
    most = max(seen.values())
    return [DIALECTS[name] for name, count in seen.items() if count == most > 0]


def _in_template(wanted: Recognition, template: str) -> int:
    fits = all(text in template for text in wanted.template)
    fits = fits and bool(wanted.template) and not any(text in template for text in wanted.without)
    return len((*wanted.template, *wanted.without)) if fits else 0


def _ambiguous(seen: str, best: Sequence[Dialect]) -> tuple[str, ...]:
    if len(best) == 1:
        return ()
    names = ", ".join(each.name for each in best[:MAX_NAMED])
    return (
        f"The {seen} several dialects equally: {names}. {best[0].name} was chosen. Set "
        "TOOLGATE_DIALECT to one of them.",
    )


def _plain(chat_template: str | None) -> tuple[str, ...]:
    if chat_template is None or "tool" not in chat_template:
        return ()
    return (
        "The chat template mentions tools, but has the texts of no known dialect, so requests with "
        "tools are refused. Set TOOLGATE_DIALECT if the model writes calls in a known form.",
    )


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(f"`{text}`" for text in texts)
