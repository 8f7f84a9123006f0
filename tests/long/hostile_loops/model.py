"""The random model: a backend without masks, which writes valid calls and all that is wrong."""

import json
import re
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from jsonschema import Draft202012Validator

from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.script import Script, call
from toolgate_core import wire

QUESTION = re.compile(r"loop (\d+)( quiet)?$")
"""What a loop asks. `quiet`: the backend has no faults in it, and the answer depends on nothing but
the number."""
RESIDUAL = wire.ResidualKeyword(pointer="/properties/loop/type", keyword="type")
TEXTS = ("It is.", "北京 🙂", '{"name": "plain_0"', "</tool_response>", "word " * 40)
AGAIN = 8
"""Further attempts that the model has at a call."""


class RandomModel(FakeBackend):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self.rounds: Counter[int] = Counter()
        """By loop: the largest number of calls of the model that a response took."""
        self.written: Counter[str] = Counter()
        """What the model wrote, by kind."""
        self.residual = {
            name: (RESIDUAL,)
            for at, name in enumerate(f"hostile-{each}" for each in SCHEMAS)
            if at % 2
        }

    def script_of(self, message: wire.GenerateRequest) -> Script:
        assert isinstance(message.prompt, wire.ChatPrompt)
        said = message.prompt.messages
        found = next(filter(None, (QUESTION.match(str(each["content"])) for each in said)))
        loop, turn = int(found[1]), sum(each["role"] == "assistant" for each in said) + 1
        self.rounds[loop] = max(self.rounds[loop], turn)
        rng = Random(f"{self._seed}-{loop}-{turn}")
        names = (
            [each.name for each in message.enforcement.candidates] if message.enforcement else []
        )
        texts = tuple(self._turn(rng, loop, sorted(names)) for _ in range(1 + AGAIN))
        script = Script(texts[:1], again=texts[1:])
        if rng.random() < 0.05:
            script.finish = "length"
        if found[2] is None and rng.random() < 0.06:
            fault = rng.choice(("error_after", "break_after", "hang_after"))
            self.written[f"backend: {fault}"] += 1
            setattr(script, fault, rng.randrange(40))
        if found[2] is None and rng.random() < 0.1:
            script.pause = 0.002
        return script

    def _turn(self, rng: Random, loop: int, names: list[str]) -> str:
        if not names or rng.random() < 0.12:
            self.written["prose"] += 1
            return rng.choice(TEXTS)
        before = rng.choice(("", "", "Let me see.", "<think>\nHm.\n</think>\n\n"))
        calls = (
            self._call(rng, loop, rng.choice(names)) for _ in range(rng.choice((1, 1, 1, 2, 4)))
        )
        return before + "\n".join(calls)

    def _call(self, rng: Random, loop: int, name: str) -> str:
        tool = name.partition("-")[2]
        if tool not in SCHEMAS:  # a tool of the client's
            self.written["call of a client's tool"] += 1
            return call(name, {"id": 1})
        arguments = instance(rng.choice(SCHEMAS[tool]), rng) | {LOOP: loop}
        kind = "valid" if rng.random() < 0.92 else rng.choice((*DAMAGES, "unknown tool"))
        self.written[f"call: {kind}"] += 1
        if kind == "unknown tool":
            return call("hostile-secret", arguments)
        return call(name, DAMAGES[kind](arguments) if kind in DAMAGES else arguments)


def _without_one(arguments: dict[str, Any]) -> dict[str, Any]:
    return dict(list(arguments.items())[:-1])


DAMAGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "member missing": _without_one,
    "member too many": lambda arguments: {**arguments, "other": 1},
    "wrong type": lambda arguments: {**arguments, "value": {"a": []}},
    "loop is text": lambda arguments: {**arguments, LOOP: str(arguments[LOOP])},
    "no object": lambda _: "[1, 2]",
    "broken JSON": lambda arguments: json.dumps(arguments)[:-2],
    "twice": lambda arguments: json.dumps(arguments)[:-1] + f', "{LOOP}": "x"}}',
}


Schema = dict[str, Any]

LOOP = "loop"
"""An argument: the number of the loop that calls."""
FAULTS = (
    "slow",  # no result in time
    "hangs",  # half a response, and then nothing
    "huge",  # megabytes of text
    "fails",  # a result that says that it is an error
    "raises",  # an error of the protocol
    "wrong",  # a result of the wrong types
    "cut",  # half a response
    "drops",  # no response
    "crashes",  # the process ends
    "changes",  # the schema is another one in every second list
    "vanishes",  # missing in every second list
)
REPEATABLE = ("huge", "fails", "raises", "wrong")
"""Those whose result is the same each time, and that leave other calls alone."""
INTEGER: Schema = {"type": "integer", "minimum": -5, "maximum": 99}
WORD: Schema = {"type": "string", "enum": ["a", "b", 'quo"te', "北京 🙂", "</tool_call>"]}
TEXT: Schema = {"type": "string", "maxLength": 12}
LIST: Schema = {"type": "array", "items": INTEGER, "minItems": 1, "maxItems": 3}
NESTED: Schema = {
    "type": "object",
    "properties": {"word": WORD, "on": {"type": "boolean"}},
    "required": ["word", "on"],
    "additionalProperties": False,
}
PLAIN: tuple[Schema, ...] = (INTEGER, WORD, TEXT, LIST, NESTED)


def _schema(**members: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {LOOP: {"type": "integer"}, **members},
        "required": [LOOP, *members],
        "additionalProperties": False,
    }


SCHEMAS: dict[str, tuple[Schema, ...]] = {
    **{f"plain_{at}": (_schema(value=PLAIN[at % 5], more=PLAIN[at // 5]),) for at in range(9)},
    **{fault: (_schema(value=INTEGER),) for fault in FAULTS},
    "changes": (_schema(value=INTEGER), _schema(value=WORD)),
}
"""By name: the schemas that a tool has in turn."""


def offered(listing: int) -> dict[str, Schema]:
    """Return the tools of a list. `listing`: its number."""
    return {
        name: schemas[listing % len(schemas)]
        for name, schemas in SCHEMAS.items()
        if name != "vanishes" or listing % 2 == 0
    }


def is_valid(name: str, arguments: Any) -> bool:
    """Return whether arguments satisfy a schema that the tool had in some list. The gateway
    validates with another library."""
    return any(Draft202012Validator(each).is_valid(arguments) for each in SCHEMAS[name])


def instance(schema: Schema, rng: Random) -> Any:
    """Return a random value that satisfies one of the schemas above."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    match schema["type"]:
        case "integer":
            return rng.randint(schema.get("minimum", 0), schema.get("maximum", 9))
        case "boolean":
            return rng.random() < 0.5
        case "string":
            return "".join(rng.choice('ab {"\\\n🙂') for _ in range(rng.randint(0, 12)))
        case "array":
            return [instance(schema["items"], rng) for _ in range(rng.randint(1, 3))]
    return {name: instance(each, rng) for name, each in schema["properties"].items()}
