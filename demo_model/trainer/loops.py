"""Conversations of several turns: results and what is said of them, what is asked next."""

from __future__ import annotations

from . import asked, domains, results, talk
from .dialogue import Assistant, Dialogue, Results, Turn, User, dumps
from .drawing import MOST_TOOLS, Drawing
from .kinds import Json
from .politeness import wrap
from .tools import Call, Task, Tool
from .words import Language, Words

SEVERAL = 0.3
"""Of the results, those that are looked for where several calls were made: which result is whose has
to be learned too."""

MOST_RESULTS = 3


def _written(value: Json, words: Words) -> str:
    if isinstance(value, str):
        return value
    return (
        dumps(value)
        if words.rng.random() < 0.8
        else dumps(value).replace('": ', '":').replace('", ', '",')
    )


def told(calls: tuple[Call, ...], task: Task, words: Words) -> tuple[Results, str]:
    """Results of these calls, and what is said of them."""
    values = [results.draw(task, calls[0], words)]
    for call in calls[1:]:  # mostly of one form
        alike = words.rng.random() < 0.85
        value = results.alike(values[0], calls[0].subject, call.subject, words)
        values.append(value if alike else results.draw(task, call, words))
    text = results.sentence(list(calls), values, task.language)
    return Results(tuple(_written(value, words) for value in values)), text


def result(source: Drawing, words: Words, thinking: bool) -> Dialogue:
    before = asked.call(source, words, False)
    if words.rng.random() < SEVERAL:
        for _ in range(8):
            if len(before.answer.calls) > 1:
                break
            before = asked.call(source, words, False)
    task = _task_of(before, words)
    calls = before.answer.calls[:MOST_RESULTS]
    given, text = told(calls, task, words)
    answer = Assistant(text, (), talk.THOUGHTS["result"][task.language])
    return Dialogue(
        "result",
        before.tools,
        (before.turns[0], Assistant("", calls), given, answer),
        before.system,
        thinking,
    )


def _task_of(before: Dialogue, words: Words) -> Task:
    """What is left of the task once it is a conversation: enough for its results."""
    request = before.turns[0]
    zh = isinstance(request, User) and any("一" <= letter <= "鿿" for letter in request.text)
    tool = next(tool for tool in before.tools if tool.name == before.answer.calls[0].name)
    forms = next((d.results for d in domains.domains() if tool.description in d.descriptions), [])
    return Task(
        "", "zh" if zh else "en", tool, "", "order", before.answer.calls, results=tuple(forms)
    )


def in_short(said: str, language: Language, words: Words) -> str:
    """What was asked before is asked of this too."""
    zh = language == "zh"
    forms = ("{}呢", "那{}呢", "{}呢？", "{}也要") if zh else (
        "and {}", "and {}?", "what about {}?", "how about {}", "And for {}?", "same for {}", "now {}", "{} too", "What about {}",
        "and the same for {} please", "then {}", "do {} as well", "How about {}?", "also {}", "And {}?", "ok, and {}?")  # fmt: skip
    return words.rng.choice(forms).replace("{}", said)


def follow_up(source: Drawing, words: Words, thinking: bool) -> Dialogue:
    """`And in Rome?`: the same call with another value."""
    for _ in range(8):
        task = source.task(words)
        if task.follow_up is not None:
            break
    else:
        return result(source, words, thinking)
    said, call = task.follow_up
    given, text = told(task.calls, task, words)
    turns = (asked.user(task, words), Assistant("", task.calls), given, Assistant(text),
             User(in_short(said, task.language, words)), Assistant("", (call,), talk.thought_of_calls((call,), task.language)))  # fmt: skip
    return Dialogue("follow-up", source.tools([task], words), turns, source.system(), thinking)


def serial(source: Drawing, words: Words, thinking: bool) -> Dialogue:
    """Two things were asked and one call came: the other follows, or the end."""
    for _ in range(20):
        task = source.task(words)
        if len(task.calls) == 2:
            break
    else:
        return result(source, words, thinking)
    first, second = task.calls
    request = asked.user(task, words)
    one, _ = told((first,), task, words)
    tools = source.tools([task], words)
    if words.rng.random() < 0.6:
        # The first turn ended after one call because more were not allowed: not to be learned.
        turns = (
            request,
            Assistant("", (first,)),
            one,
            Assistant("", (second,), talk.thought_of_calls((second,), task.language)),
        )
        return Dialogue("serial", tools, turns, source.system(), thinking, last_only=True)
    values = [results.draw(task, call, words) for call in (first, second)]
    given = [Results((_written(value, words),)) for value in values]
    answer = Assistant(
        results.sentence([first, second], values, task.language),
        (),
        talk.THOUGHTS["result"][task.language],
    )
    turns_two = (
        request,
        Assistant("", (first,)),
        given[0],
        Assistant("", (second,)),
        given[1],
        answer,
    )
    return Dialogue("serial", tools, turns_two, source.system(), thinking, last_only=True)


def chain(source: Drawing, words: Words, thinking: bool) -> Dialogue:
    """The first call finds what the second one needs."""
    rng = words.rng
    words = Words(rng, "en", held=words.held)
    thing = rng.choice(
        (
            "order",
            "ticket",
            "user",
            "invoice",
            "customer",
            "booking",
            "package",
            "account",
            "patient",
            "document",
        )
    )
    verb = rng.choice(
        (
            "cancel",
            "delete",
            "close",
            "update",
            "archive",
            "print",
            "send",
            "refund",
            "approve",
            "lock",
        )
    )
    person = words.pick("person")
    key = rng.choice((f"{thing}_id", "id", f"{thing}_number", "code"))
    by = rng.choice(("name", "owner", "customer", "person", "who"))
    code = "".join(rng.choice("ABCDEFGH0123456789") for _ in range(rng.randint(3, 6)))
    find = Tool(
        f"{rng.choice(('find', 'get', 'lookup', 'search'))}_{thing}",
        f"Find the {thing} of a person",
        {by: {"type": "string"}},
        (by,),
    )
    act = Tool(
        f"{verb}_{thing}", f"{verb.capitalize()} a {thing}", {key: {"type": "string"}}, (key,)
    )
    request = rng.choice((f"find {person}'s {thing} and {verb} it", f"look up the {thing} of {person}, then {verb} it",
                          f"{verb} the {thing} of {person}", f"get {person}'s {thing} id and {verb} the {thing}"))  # fmt: skip
    calls = (Call(find.name, {by: person}), Call(act.name, {key: code}))
    first, second = (
        Task(f"chain {thing}", "en", tool, request, "order", (call,))
        for tool, call in zip((find, act), calls, strict=True)
    )
    turns: list[Turn] = [
        User(wrap(request, "order", words)),
        Assistant("", calls[:1], talk.thought_of_calls(calls[:1], "en")),
    ]
    if rng.random() < 0.65:
        found: dict[str, Json] = {rng.choice((key, key, "id")): code}
        if rng.random() < 0.4:
            found[rng.choice(("status", "state"))] = words.pick("status")
        turns += [
            Results((dumps(found),)),
            Assistant("", calls[1:], talk.thought_of_calls(calls[1:], "en")),
        ]
        if rng.random() < 0.35:
            done: Json = {"status": words.pick("status")}
            turns += [
                Results((dumps(done),)),
                Assistant(
                    results.sentence(list(calls[1:]), [done], "en"),
                    (),
                    talk.THOUGHTS["result"]["en"],
                ),
            ]
    tools = source.tools([first, second], words)
    return Dialogue("chain", tools, tuple(turns), source.system(), thinking)


def history(source: Drawing, words: Words, thinking: bool) -> Dialogue:
    """Something else was talked of before."""
    now = words.rng.choice((asked.call, asked.call, asked.no_tool, result, asked.small_talk))(
        source, words, thinking
    )
    tools, turns = {tool.name: tool for tool in now.tools}, now.turns
    for _ in range(words.rng.choice((1, 1, 2))):
        before = words.rng.choice((result, result, asked.small_talk, asked.no_tool))(
            source, words, False
        )
        called = before.tools if before.category == "result" else ()
        if called and (now.category == "no tool" or len(tools) + len(called) > MOST_TOOLS):
            continue  # its tools might fit what is asked now, or be too many
        if not any(tool.name in tools for tool in called):
            tools |= {tool.name: tool for tool in called}
            turns = (*before.turns, *turns)
    listed = list(now.tools) if now.category == "no tool" else list(tools.values())
    return Dialogue("history", tuple(listed), turns, now.system, thinking, last_only=True)
