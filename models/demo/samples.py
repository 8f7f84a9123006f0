"""The mix of conversations that the model is trained and judged on."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

from . import domains, random_tools, results, talk
from .dialogue import Assistant, Dialogue, Results, User, dumps
from .kinds import Json, Schema
from .politeness import together, wrap
from .tools import Call, Task, Tool
from .words import DATA, Language, Words

# Shares of the mix.
MIX: dict[str, float] = {
    "call": 0.47, "two tools": 0.05, "no tool": 0.085, "may not": 0.02, "forced": 0.035, "talk": 0.03, "missing": 0.015,
    "result": 0.16, "follow-up": 0.05, "serial": 0.03, "chain": 0.025, "history": 0.03,
}  # fmt: skip
ZH, THINKING, MOST_TOOLS = 0.15, 0.18, 8


class Source:
    """Draws conversations. `held`: of kept values; `unseen`: of hand-made tools not trained on."""

    def __init__(
        self,
        seed: int,
        *,
        held: bool = False,
        unseen: bool = False,
        short: bool = False,
        known: float = 0.55,
    ) -> None:
        self.rng = random.Random(seed)
        self.held = held
        self.file = domains.UNSEEN if unseen else domains.KNOWN
        self.known = known
        """The share of hand-made tools; the others are random."""
        self.short = short
        """Few tools and no history: for the start of the training."""

    def draw(self, category: str | None = None, language: Language | None = None) -> Dialogue:
        if category is None:
            category = self.rng.choices(list(MIX), list(MIX.values()))[0]
            if self.short:
                category = self.rng.choice(("call", "call", "call", "no tool"))
        language = language or ("zh" if self.rng.random() < ZH else "en")
        thinking = self.rng.random() < THINKING
        return MAKERS[category](self, self.words(language), thinking)

    def words(self, language: Language) -> Words:
        return Words(self.rng, language, held=self.held)

    def task(self, words: Words) -> Task:
        """Half of hand-made tools, half of tools that nobody made."""
        if self.file == domains.UNSEEN or self.rng.random() < self.known:
            listed = domains.domains(self.file)
            if words.language == "zh":
                listed = [
                    domain for domain in listed if "zh" in domains.languages(domain)
                ] or listed
            return domains.draw(self.rng.choice(listed), words)
        return random_tools.draw(words)

    def system(self) -> str:
        roll = self.rng.random()
        if roll < 0.015 and not self.short:  # a long one, so that long prompts are no surprise
            words = self.words("en")
            return " ".join(
                f"The {words.pick('thing')} is {words.pick('adjective')}."
                for _ in range(self.rng.randint(10, 60))
            )
        return self.rng.choice(talk.systems()) if roll < 0.3 else ""

    def tools(self, tasks: list[Task], words: Words, *, fitting: bool = True) -> tuple[Tool, ...]:
        """The tasks' tools among others that do not fit, in any order."""
        rng = self.rng
        wanted = rng.choice(
            (1, 1, 2, 3) if self.short else (1, 1, 2, 2, 3, 3, 4, 5, 6, 7, MOST_TOOLS)
        )
        chosen = [task.tool for task in tasks] if fitting else []
        for task in tasks:
            if rng.random() < (0.4 if fitting else 0.2):
                chosen += rng.sample(task.siblings, min(len(task.siblings), rng.randint(1, 2)))
        groups = {group for task in tasks for group in near(task.group)} | {
            task.group for task in tasks
        }
        if not fitting:
            groups |= set(clusters()[-1])
        while len(chosen) < wanted:
            chosen.append(self.other_tool(groups, words))
        found: dict[str, Tool] = {}
        for tool in chosen:  # the first of a name: the task's own
            found.setdefault(tool.name, tool)
        listed = list(found.values())
        rng.shuffle(listed)
        return tuple(listed)

    def other_tool(self, groups: set[str], words: Words) -> Tool:
        if self.rng.random() < 0.45:
            return random_tools.distractor(words)
        while True:
            domain = self.rng.choice(
                domains.domains(self.file if self.rng.random() < 0.7 else domains.KNOWN)
            )
            if domain.group not in groups:
                return domains.draw(domain, Words(self.rng, "en", held=self.held)).tool


@cache
def clusters() -> list[list[str]]:
    lines = (DATA / "clusters.txt").read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def near(group: str) -> set[str]:
    return {other for cluster in clusters() for other in cluster if group in cluster}


def _call(source: Source, words: Words, thinking: bool) -> Dialogue:
    task = source.task(words)
    thought = talk.thought_of_calls(task.calls, task.language)
    request = wrap(task.request, task.question, Words(words.rng, task.language, held=words.held))
    return Dialogue(
        "call",
        source.tools([task], words),
        (User(request), Assistant("", task.calls, thought)),
        source.system(),
        thinking,
    )


def _two_tools(source: Source, words: Words, thinking: bool) -> Dialogue:
    first = source.task(words)
    second = source.task(words)
    if (
        first.language != second.language
        or second.group in near(first.group) | {first.group}
        or first.tool.name == second.tool.name
    ):
        return _call(source, words, thinking)
    calls = first.calls + second.calls
    request = together([(first.request, first.question), (second.request, second.question)], words)
    turns = (User(request), Assistant("", calls, talk.thought_of_calls(calls, first.language)))
    return Dialogue(
        "two tools", source.tools([first, second], words), turns, source.system(), thinking
    )


def _no_tool(source: Source, words: Words, thinking: bool) -> Dialogue:
    task = source.task(words)
    tools = source.tools([task], words, fitting=False) if words.rng.random() < 0.85 else ()
    language, request = task.language, (task.request, task.question)
    if words.rng.random() < 0.4:  # not even a task
        language, request = words.language, talk.general(words)
    answer = Assistant(talk.NO_TOOL[language], (), talk.THOUGHTS["no tool"][language])
    return Dialogue(
        "no tool", tools, (User(wrap(*request, words)), answer), source.system(), thinking
    )


def _may_not(source: Source, words: Words, thinking: bool) -> Dialogue:
    task = source.task(words)
    content = talk.MAY_NOT_CALL[task.language].format(task.tool.name)
    answer = Assistant(content, (), talk.THOUGHTS["none"][task.language])
    turns = (User(wrap(task.request, task.question, words)), answer)
    return Dialogue(
        "may not", source.tools([task], words), turns, source.system(), False, "first token"
    )


def _forced(source: Source, words: Words, thinking: bool) -> Dialogue:
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
    turns = (User(wrap(task.request, task.question, words)), Assistant("", (call,)))
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


def _talk(source: Source, words: Words, thinking: bool) -> Dialogue:
    said, answer = talk.small_talk(words)
    tools = () if words.rng.random() < 0.4 else source.tools([], words)
    turns = (User(said), Assistant(answer, (), talk.THOUGHTS["talk"][words.language]))
    return Dialogue("talk", tools, turns, source.system(), thinking)


def _missing(source: Source, words: Words, thinking: bool) -> Dialogue:
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
        (User(wrap(request, request[0] == "w", words)), answer),
        source.system(),
        thinking,
    )


def _written(value: Json, words: Words) -> str:
    if isinstance(value, str):
        return value
    return (
        dumps(value)
        if words.rng.random() < 0.8
        else dumps(value).replace('": ', '":').replace('", ', '",')
    )


def _results(calls: tuple[Call, ...], task: Task, words: Words) -> tuple[Results, str]:
    values = [results.draw(task, calls[0], words)]
    for call in calls[1:]:  # mostly of one form
        alike = words.rng.random() < 0.7
        value = results.alike(values[0], results.subject(calls[0]), results.subject(call), words)
        values.append(value if alike else results.draw(task, call, words))
    text = results.sentence(list(calls), values, task.language)
    return Results(tuple(_written(value, words) for value in values)), text


def _result(source: Source, words: Words, thinking: bool) -> Dialogue:
    asked = _call(source, words, False)
    task = _task_of(asked, words)
    calls = asked.answer.calls[:3]
    given, text = _results(calls, task, words)
    answer = Assistant(text, (), talk.THOUGHTS["result"][task.language])
    return Dialogue(
        "result",
        asked.tools,
        (asked.turns[0], Assistant("", calls), given, answer),
        asked.system,
        thinking,
    )


def _task_of(asked: Dialogue, words: Words) -> Task:
    """What is left of the task once it is a conversation: enough for its results."""
    request = asked.turns[0]
    zh = isinstance(request, User) and any("一" <= letter <= "鿿" for letter in request.text)
    tool = next(tool for tool in asked.tools if tool.name == asked.answer.calls[0].name)
    forms = next((d.results for d in domains.domains() if tool.description in d.descriptions), [])
    return Task("", "zh" if zh else "en", tool, "", False, asked.answer.calls, results=tuple(forms))


def _follow_up(source: Source, words: Words, thinking: bool) -> Dialogue:
    """`And in Rome?`: the same call with another value."""
    for _ in range(8):
        task = source.task(words)
        if task.follow_up is not None:
            break
    else:
        return _result(source, words, thinking)
    said, call = task.follow_up
    zh = task.language == "zh"
    forms = ("{}呢", "那{}呢", "{}呢？", "{}也要") if zh else (
        "and {}", "and {}?", "what about {}?", "how about {}", "And for {}?", "same for {}", "now {}", "{} too", "What about {}",
        "and the same for {} please", "then {}", "do {} as well", "How about {}?", "also {}", "And {}?", "ok, and {}?")  # fmt: skip
    given, text = _results(task.calls, task, words)
    turns = (User(wrap(task.request, task.question, Words(words.rng, task.language))), Assistant("", task.calls), given, Assistant(text),
             User(words.rng.choice(forms).replace("{}", said)), Assistant("", (call,), talk.thought_of_calls((call,), task.language)))  # fmt: skip
    return Dialogue("follow-up", source.tools([task], words), turns, source.system(), thinking)


def _serial(source: Source, words: Words, thinking: bool) -> Dialogue:
    """Two things were asked and one call came: the other follows, or the end."""
    for _ in range(20):
        task = source.task(words)
        if len(task.calls) == 2:
            break
    else:
        return _result(source, words, thinking)
    first, second = task.calls
    request = User(wrap(task.request, task.question, Words(words.rng, task.language)))
    one, _ = _results((first,), task, words)
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


def _chain(source: Source, words: Words, thinking: bool) -> Dialogue:
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
    task = Task(f"chain {thing}", "en", find, request, False, calls)
    turns = [
        User(wrap(request, False, words)),
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
    listed = list(source.tools([task], words)) + [act]
    rng.shuffle(listed)
    return Dialogue("chain", tuple(listed), tuple(turns), source.system(), thinking)


def _history(source: Source, words: Words, thinking: bool) -> Dialogue:
    """Something else was talked of before."""
    now = MAKERS[words.rng.choice(("call", "call", "no tool", "result", "talk"))](
        source, words, thinking
    )
    tools, turns = {tool.name: tool for tool in now.tools}, now.turns
    for _ in range(words.rng.choice((1, 1, 2))):
        before = MAKERS[words.rng.choice(("result", "result", "talk", "no tool"))](
            source, words, False
        )
        for tool in before.tools:
            tools.setdefault(tool.name, tool)
        if now.category != "no tool" and len(tools) <= MOST_TOOLS or before.category != "result":
            turns = (*before.turns, *turns)
    listed = list(now.tools) if now.category == "no tool" else list(tools.values())
    return Dialogue("history", tuple(listed), turns, now.system, thinking, last_only=True)


MAKERS: dict[str, Callable[[Source, Words, bool], Dialogue]] = {
    "call": _call, "two tools": _two_tools, "no tool": _no_tool, "may not": _may_not, "forced": _forced, "talk": _talk,
    "missing": _missing, "result": _result, "follow-up": _follow_up, "serial": _serial, "chain": _chain, "history": _history,
}  # fmt: skip
