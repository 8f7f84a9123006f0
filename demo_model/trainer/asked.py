"""Conversations of one request: it is answered with calls, or in words."""

from __future__ import annotations

from . import talk
from .dialogue import Assistant, Dialogue, User
from .drawing import Drawing, near
from .kinds import Json, Schema
from .politeness import together, wrap
from .tools import Call, Task, Tool
from .words import Words


def user(task: Task, words: Words) -> User:
    """As someone would type it, in the task's own language."""
    return User(wrap(task.request, task.mood, Words(words.rng, task.language)))


def call(source: Drawing, words: Words, thinking: bool) -> Dialogue:
    task = source.task(words)
    thought = talk.thought_of_calls(task.calls, task.language)
    said = user(task, words)
    return Dialogue(
        "call",
        source.tools([task], words),
        (said, Assistant("", task.calls, thought)),
        source.system(),
        thinking,
    )


def two_tools(source: Drawing, words: Words, thinking: bool) -> Dialogue:
    first = source.task(words)
    second = source.task(words)
    if (
        first.language != second.language
        or second.group in near(first.group) | {first.group}
        or first.tool.name == second.tool.name
    ):
        return call(source, words, thinking)
    calls = first.calls + second.calls
    request = together([(first.request, first.mood), (second.request, second.mood)], words)
    turns = (User(request), Assistant("", calls, talk.thought_of_calls(calls, first.language)))
    return Dialogue(
        "two tools", source.tools([first, second], words), turns, source.system(), thinking
    )


def no_tool(source: Drawing, words: Words, thinking: bool) -> Dialogue:
    task = source.task(words)
    tools = source.tools([task], words, fitting=False) if words.rng.random() < 0.85 else ()
    language, request = task.language, (task.request, task.mood)
    if words.rng.random() < 0.4:  # not even a task
        language, request = words.language, talk.general(words)
    answer = Assistant(talk.NO_TOOL[language], (), talk.THOUGHTS["no tool"][language])
    said = User(wrap(*request, Words(words.rng, language, held=words.held)))
    return Dialogue("no tool", tools, (said, answer), source.system(), thinking)


def may_not(source: Drawing, words: Words, thinking: bool) -> Dialogue:
    task = source.task(words)
    content = talk.MAY_NOT_CALL[task.language].format(task.tool.name)
    answer = Assistant(content, (), talk.THOUGHTS["none"][task.language])
    turns = (user(task, words), answer)
    return Dialogue(
        "may not", source.tools([task], words), turns, source.system(), False, "first token"
    )


def forced(source: Drawing, words: Words, thinking: bool) -> Dialogue:
    """A call that must come though nothing fits: `required` picks a tool, a named one is given."""
    task = source.task(words)
    tools = source.tools([task], words, fitting=words.rng.random() < 0.5)
    given = words.rng.choice(tools)
    if given is task.tool:
        call = task.calls[0]
    else:
        call = Call(
            given.name,
            {
                name: _unknown(schema)
                for name, schema in given.properties.items()
                if name in given.required
            },
        )
    turns = (user(task, words), Assistant("", (call,)))
    return Dialogue("forced", tools, turns, source.system(), False, "head")


def _unknown(schema: Schema) -> Json:
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "object":
        return {
            name: _unknown(schema["properties"][name])
            for name in schema["properties"]
            if name in schema["required"]
        }
    if schema.get("type") == "array":
        return [_unknown(schema["items"])] * int(schema.get("minItems", 1))
    return {"integer": 1 if schema.get("minimum") else 0, "number": 0, "boolean": False}.get(
        schema["type"], talk.UNKNOWN
    )


def small_talk(source: Drawing, words: Words, thinking: bool) -> Dialogue:
    said, answer = talk.small_talk(words)
    tools = () if words.rng.random() < 0.4 else source.tools([], words)
    turns = (User(said), Assistant(answer, (), talk.THOUGHTS["talk"][words.language]))
    return Dialogue("talk", tools, turns, source.system(), thinking)


def missing(source: Drawing, words: Words, thinking: bool) -> Dialogue:
    """A value that must be given and was not: asked for."""
    words = Words(words.rng, "en", held=words.held)
    name, noun = words.rng.choice((("city", "weather"), ("symbol", "stock price"), ("order_id", "order status"), ("city", "local time"),
                                   ("email", "profile"), ("date", "schedule"), ("id", "ticket status"), ("title", "showtimes")))  # fmt: skip
    tool = Tool(
        f"get_{noun.replace(' ', '_')}", f"Get the {noun}", {name: {"type": "string"}}, (name,)
    )
    request = words.rng.choice(
        (
            f"get the {noun}",
            f"what's the {noun}",
            f"check the {noun}",
            f"{noun} please",
            f"show me the {noun}",
        )
    )
    answer = Assistant(
        talk.MISSING["en"].format(name.replace("_", " ")), (), talk.THOUGHTS["missing"]["en"]
    )
    others = tuple(t for t in source.tools([], words) if noun.split()[0] not in t.name)
    tools = [tool, *others][: words.rng.randint(1, 4)]
    words.rng.shuffle(tools)
    return Dialogue(
        "missing",
        tuple(tools),
        (User(wrap(request, "question" if request[0] == "w" else "order", words)), answer),
        source.system(),
        thinking,
    )
