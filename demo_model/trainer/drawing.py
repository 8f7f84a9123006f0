"""What conversations are put together from: tasks, tools beside theirs, system messages."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

from . import domains, random_tools, talk
from .tools import Task, Tool
from .words import Language, Words, lines, listed

MOST_TOOLS = 8
MET_OFTEN, OFTEN = ("judge", "answer_only", "weather"), 0.1
"""Facts have to be remembered one by one; the weather is what everybody asks first."""
SIBLINGS = 0.3
"""Of the lists with a task's tool, those with tools of the same noun or verb."""
SIBLINGS_UNFIT, SIBLINGS_UNFIT_HELD = 0.6, 0.4
"""Of the lists without it, in training and in the evaluation."""
TWINS, OTHER_KINDS = 0.2, 0.5
"""Of the lists that are trained on, those with a tool that does something else with the same arguments,
and of these tools those whose arguments have the names alone in common."""
ANY_KIND = listed("word count switch [item] [count] lines address contact money box")


class Drawing:
    """Draws conversations. `held`: of kept values; `unseen`: of hand-made tools not trained on."""

    def __init__(
        self,
        seed: int,
        *,
        held: bool = False,
        unseen: bool = False,
        short: bool = False,
        known: float = 0.75,
    ) -> None:
        self.rng = random.Random(seed)
        self.held = held
        self.file = domains.UNSEEN if unseen else domains.KNOWN
        self.known = known
        """The share of hand-made tools; the others are random."""
        self.short = short
        """Few tools and no history: for the start of the training."""

    def words(self, language: Language) -> Words:
        return Words(self.rng, language, held=self.held)

    def task(self, words: Words) -> Task:
        """Of a hand-made tool, or of one that nobody made."""
        if self.file == domains.UNSEEN or self.rng.random() < self.known:
            listed = domains.domains(self.file)
            if words.language == "zh":
                listed = [
                    domain for domain in listed if "zh" in domains.languages(domain)
                ] or listed
            if not self.held and self.rng.random() < OFTEN:
                listed = [domain for domain in listed if domain.group in MET_OFTEN] or listed
            # Each as often in training: what is asked for in few ways is no sooner learned.
            weights = [domain.weight if self.held else 1.0 for domain in listed]
            return domains.draw(self.rng.choices(listed, weights)[0], words)
        return random_tools.draw(words)

    def system(self) -> str:
        roll = self.rng.random()
        if roll < 0.008 and not self.short:  # a long one, so that long prompts are no surprise
            words = self.words("en")
            return " ".join(
                f"The {words.pick('thing')} is {words.pick('adjective')}."
                for _ in range(self.rng.randint(10, 60))
            )
        return self.rng.choice(talk.systems()) if roll < 0.3 else ""

    def tools(
        self,
        tasks: list[Task],
        words: Words,
        *,
        fitting: bool = True,
        bounded: bool = False,
        absent: Task | None = None,
    ) -> tuple[Tool, ...]:
        """The tasks' tools among others that do not fit, in any order. `bounded`: none of the others
        answers any question. `absent`: nothing fits this one."""
        rng = self.rng
        wanted = rng.choice(
            (1, 1, 2, 3) if self.short else (1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, MOST_TOOLS)
        )
        chosen = [task.tool for task in tasks] if fitting else []
        unfit = SIBLINGS_UNFIT_HELD if self.held else SIBLINGS_UNFIT
        siblings = SIBLINGS if fitting else unfit
        for task in tasks:
            if len(chosen) < MOST_TOOLS - 2 and rng.random() < siblings:
                chosen += rng.sample(task.siblings, min(len(task.siblings), rng.randint(1, 2)))
        asked = [*tasks, absent] if absent else tasks
        groups = {group for task in asked for group in {task.group, *near(task.group)}}
        if not fitting or bounded:
            groups |= answering()
        if tasks and not self.held and len(chosen) < MOST_TOOLS - 2 and rng.random() < TWINS:
            own = rng.choice(tasks).tool
            taken = dict(own.properties)
            if rng.random() < OTHER_KINDS:
                taken = {
                    name: domains.shape_of(rng.choice(ANY_KIND), words).schema for name in taken
                }
            other = random_tools.distractor(words, groups)
            chosen.append(replace(other, properties=taken, required=own.required))
        while len(chosen) < wanted:
            chosen.append(self.other_tool(groups, words))
        found: dict[str, Tool] = {}
        for tool in chosen:  # the first of a name: the task's own
            if absent is None or tool.name != absent.tool.name:
                found.setdefault(tool.name, tool)
        listed = list(found.values())
        rng.shuffle(listed)
        return tuple(listed)

    def other_tool(self, groups: set[str], words: Words) -> Tool:
        if self.rng.random() < 0.45:
            return random_tools.distractor(words, groups)
        while True:
            domain = self.rng.choice(
                domains.domains(self.file if self.rng.random() < 0.7 else domains.KNOWN)
            )
            if domain.group not in groups:
                return domains.draw(domain, Words(self.rng, "en", held=self.held)).tool


@cache
def clusters() -> list[list[str]]:
    return [line.split() for line in lines("clusters")]


def answering() -> set[str]:
    """Groups whose tools answer whatever is asked."""
    return set(clusters()[-1])


def near(group: str) -> set[str]:
    return {other for cluster in clusters() for other in cluster if group in cluster}
