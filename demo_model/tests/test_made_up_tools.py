"""Tools that nobody made, and arguments that nobody asks for: a request tells what a call needs."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest

from trainer import domains, parts, random_tools
from trainer.drawing import Drawing
from trainer.kind_table import CHOICES, OF_ANY, OF_ANY_ZH
from trainer.words import Language, Words


@pytest.mark.parametrize("language", ["en", "zh"])
def test_values_that_look_alike_are_said_by_their_names(language: Language) -> None:
    words, alike = Words(random.Random(5), language), 0
    for _ in range(2000):
        drawn = parts.draw("order", words)
        for one, other in combinations(drawn, 2):
            told = len(one.ways) == 1 and len(other.ways) == 1  # from {} to {}
            if not told and any({one.kind, other.kind} <= look for look in parts.LOOKS):
                alike += 1
                for part in (one, other):
                    assert len(part.ways) == 1 or part.ways in (OF_ANY, OF_ANY_ZH)
    assert alike > 20


def test_made_up_tools_often_have_several_arguments() -> None:
    words = Words(random.Random(6), "en")
    numbers = [len(parts.draw("order", words)) for _ in range(1000)]
    assert sum(number > 1 for number in numbers) > 300
    assert set(numbers) >= {0, 1, 2, 3}


def test_two_numbers_may_be_one_word() -> None:
    words, glued = Words(random.Random(8), "en"), 0
    for _ in range(3000):
        task = random_tools.draw(words)
        assert parts.GLUED.strip() not in task.request
        values = task.calls[0].arguments.values()
        numbers = [str(value) for value in values if isinstance(value, int | float)]
        glued += any(
            f"{one}{mark}{other}" in task.request
            for one, other in pairwise(numbers)
            for mark in "/x:-"
        )
    assert glued > 10


def test_a_request_says_nothing_of_an_argument_that_was_added() -> None:
    words, added = Words(random.Random(7), "en"), 0
    for domain in domains.domains():
        own = {slot.kind for slot in domain.slots}
        for task in (domains.draw(domain, words) for _ in range(30)):
            for schema in task.tool.properties.values():
                choices = "|".join(map(str, schema.get("enum", ())))
                if choices in CHOICES and choices not in own:
                    added += 1
                    assert not set(schema["enum"]) & set(task.request.lower().split())
    assert added > 100


def test_where_nothing_fits_no_tool_is_the_one_that_is_asked_for() -> None:
    source = Drawing(77, held=True, known=0.0)
    for _ in range(2000):
        words = source.words("en")
        task = source.task(words)
        noun = task.group.partition(" ")[2].replace(" ", "_")
        for tool in source.tools([task], words, fitting=False):
            told_by_name = tool.name != noun
            assert tool.name != task.tool.name if told_by_name else tool.description
