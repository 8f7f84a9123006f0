"""One request after another, all answered from one list of tools: it is read but once for them."""

from __future__ import annotations

from . import asked, loops, talk
from .dialogue import Assistant, Dialogue, Turn, User
from .drawing import Drawing, answering, near
from .politeness import wrap
from .tools import Task
from .words import Words

REQUESTS, REQUESTS_SHORT = (3, 4, 5, 6), (2, 3)
FOLLOWED, TOLD = 0.2, 0.25
"""Of the calls: those that another one like them follows, and those whose results come."""
BOUNDED, OTHER = 0.4, 0.3
"""Of the lists: those that hold no tool for everything; and of the requests to one of these: those
after which something is asked that no tool is for."""
ABSENT = 0.6
"""Of these lists: those in which the tool of one of the requests is left out."""


def rounds(source: Drawing, words: Words, thinking: bool) -> Dialogue:
    rng = words.rng
    tasks = _apart(source, words, rng.choice(REQUESTS_SHORT if source.short else REQUESTS))
    bounded = rng.random() < BOUNDED and not answering() & {task.group for task in tasks}
    absent = tasks.pop() if bounded and len(tasks) > 1 and rng.random() < ABSENT else None
    asked_after = rng.choice(tasks)
    turns: list[Turn] = []
    for task in tasks:
        turns += [asked.user(task, words), Assistant("", task.calls), *_next(task, words)]
        if absent is not None and task is asked_after:
            turns += [asked.user(absent, words), Assistant(talk.NO_TOOL[absent.language])]
        if bounded and rng.random() < OTHER:
            turns += [
                User(wrap(*talk.general(words), words)),
                Assistant(talk.NO_TOOL[words.language]),
            ]
    tools = source.tools(tasks, words, bounded=bounded, absent=absent)
    return Dialogue("rounds", tools, tuple(turns), source.system())


def _apart(source: Drawing, words: Words, number: int) -> list[Task]:
    """Tasks of which none is one for another's tool."""
    tasks: list[Task] = []
    for _ in range(number):
        task = source.task(words)
        taken = {other.group for other in tasks} | {other.tool.name for other in tasks}
        if not taken & (near(task.group) | {task.group, task.tool.name}):
            tasks.append(task)
    return tasks


def _next(task: Task, words: Words) -> tuple[Turn, ...]:
    """What comes after the calls, before something else is asked."""
    roll = words.rng.random()
    if roll < FOLLOWED and task.follow_up is not None:
        said, call = task.follow_up
        return User(loops.in_short(said, task.language, words)), Assistant("", (call,))
    if FOLLOWED <= roll < FOLLOWED + TOLD and len(task.calls) <= loops.MOST_RESULTS:
        given, text = loops.told(task.calls, task, words)
        return given, Assistant(text)
    return ()
