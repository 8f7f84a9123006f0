"""The answer to a request, before it has the form of an API."""

import itertools
import json
from dataclasses import dataclass, field

from toolgate_verify.tools.everyday import EVERYDAY
from toolgate_verify.tools.hostile import HOSTILE
from toolgate_verify.tools.residual import RESIDUAL
from toolgate_verify.tools.sets import COPY, ENDLESS, LONG, LONGEST_NAME, MANY, PREFIXES, SETS

PIECE = 4
"""Characters of a token."""
STORY = (
    "Once upon a time — déjà vu 🙂 — a keeper lit the lamp of a lighthouse by the cold sea. " * 20
)
REASONING = "91 is 7 times 13, so it has two factors other than 1 and itself."
CONCLUSION = "No, 91 is not a prime number."
OBJECT = '{"answer": 42}'
DATE = "2026-11-25"
_ids = itertools.count(1)


def fresh(prefix):
    return f"{prefix}{next(_ids):024}"


def pieces(text):
    """The tokens of a text."""
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


@dataclass
class Call:
    name: str
    text: str
    """Arguments as JSON, or the input of a custom tool."""
    custom: bool = False
    complete: bool = True
    id: str = ""
    fragments: list[str] | None = None
    """How the text is streamed; None: piece by piece."""

    @property
    def parts(self):
        return pieces(self.text) if self.fragments is None else self.fragments


@dataclass
class Reply:
    text: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    finish: str = "stop"
    """`stop`, `length`, `calls` or `stop_sequence`."""
    stop: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    id: str = ""
    model: str = ""
    choices: int = 1
    text_parts: list[str] | None = None
    """How the text is streamed; None: piece by piece."""

    @property
    def reasoning_tokens(self):
        return len(pieces(self.reasoning))

    @property
    def parts(self):
        return pieces(self.text) if self.text_parts is None else self.text_parts


def prompt_tokens(prompt):
    return len(pieces(prompt)) + 3


def reply_to(asked):
    made = Reply(
        id=fresh({"chat": "chatcmpl-", "responses": "resp_", "messages": "msg_"}[asked.api]),
        model=asked.body["model"],
        prompt_tokens=prompt_tokens(asked.prompt),
        choices=asked.body.get("n", 1),
    )
    if asked.reasoning:
        made.reasoning = REASONING
    _content(asked, made)
    _cut(asked, made)
    made.completion_tokens *= made.choices
    return made


def _content(asked, made):
    tools = [t for t in asked.tools if not asked.allowed or t["name"] in asked.allowed]
    may_call = tools and asked.choice != "none" and (asked.to_user or asked.choice == "required")
    if may_call and (asked.choice == "required" or asked.format is None):
        several = asked.parallel and asked.choice == "required" and len(tools) > 1
        for tool in tools[: 2 if several and not asked.allowed else 1]:
            custom = bool(tool.get("custom"))
            text = DATE if custom else json.dumps(arguments(tool["name"], tool["parameters"]))
            made.calls.append(Call(tool["name"], text, custom, id=fresh("call_")))
        made.finish = "calls"
    elif asked.format is True:
        made.text = OBJECT
    elif asked.format is not None:
        made.text = json.dumps(arguments("", asked.format), ensure_ascii=False)
    else:
        made.text = CONCLUSION if asked.reasoning else STORY
        for stop in asked.stop:
            if stop in made.text:
                made.text, made.finish, made.stop = (
                    made.text.partition(stop)[0],
                    "stop_sequence",
                    stop,
                )


def _cut(asked, made):
    """Applies the limit of tokens and counts them."""
    left = asked.limit
    reasoning = pieces(made.reasoning)[:left]
    left -= len(reasoning)
    text = pieces(made.text)
    if len(text) > left:
        made.text, made.finish, made.stop = "".join(text[:left]), "length", None
        text = text[:left]
    left -= len(text)
    for at, call in enumerate(made.calls):
        spelled = pieces(call.text)
        if len(spelled) > left:
            call.text, call.complete, made.finish = "".join(spelled[:left]), False, "length"
            del made.calls[at + 1 :]
            left = 0
            break
        left -= len(spelled)
    made.reasoning = "".join(reasoning)
    made.completion_tokens = asked.limit - left if asked.limit < 10**6 else 10**6 - left


TOOLS = (
    *EVERYDAY,
    *HOSTILE,
    *RESIDUAL,
    *(tool for tools, _ in SETS.values() for tool in tools),
    *PREFIXES,
    *MANY,
    LONGEST_NAME,
    LONG,
    ENDLESS,
    COPY,
)


def known(name, parameters):
    return next((t for t in TOOLS if (t.name, t.parameters) == (name, parameters)), None)


def arguments(name, parameters):
    tool = known(name, parameters)
    return tool.example if tool is not None else value(parameters)


def value(schema):
    """A value of a simple schema."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        return {name: value(properties[name]) for name in schema.get("required", ())}
    if schema.get("type") == "array":
        return [value(schema["items"])] * schema.get("minItems", 0)
    return {"boolean": True, "integer": schema.get("minimum", 0), "string": "text"}[schema["type"]]
