"""What the demo model is trained and judged on: true by construction, and kept apart."""

from __future__ import annotations

import random

import jsonschema
import pytest

from trainer import corpus, domains, evaluate, handwritten, talk, verbs
from trainer.dialogue import Assistant, Results, User, line, render
from trainer.drawing import MOST_TOOLS, clusters
from trainer.handwritten import parse
from trainer.politeness import mood_of, wrap
from trainer.samples import MIX, Source
from trainer.tools import Mood
from trainer.words import Words

NUMBER = 150


@pytest.mark.parametrize("category", MIX)
def test_calls_keep_to_their_tools_schemas(category: str) -> None:
    source = Source(11)
    for dialogue in (source.draw(category) for _ in range(NUMBER)):
        schemas = {tool.name: tool.openai()["function"]["parameters"] for tool in dialogue.tools}
        assert len(schemas) == len(dialogue.tools)
        for turn in dialogue.turns:
            for call in turn.calls if isinstance(turn, Assistant) else ():
                schema = schemas[call.name] | {"additionalProperties": False}
                jsonschema.validate(call.arguments, schema)


def test_no_question_of_the_evaluation_has_two_tools_of_one_name() -> None:
    for asked in evaluate.questions(60).values():
        for question in asked:
            names = [tool.name for tool in question.dialogue.tools]
            assert len(set(names)) == len(names)


def test_a_seed_makes_the_same_conversations() -> None:
    one, other = Source(3), Source(3)
    assert [one.draw() for _ in range(40)] == [other.draw() for _ in range(40)]
    assert Source(4).draw() != Source(3).draw()


def test_only_answers_are_trained_on() -> None:
    source = Source(5)
    for dialogue in (source.draw() for _ in range(NUMBER)):
        text = render(dialogue)
        assert text.trained[-1][1] == len(text.text) - 1  # the end of the turn is learned
        for begin, end in text.trained:
            assert "<|im_start|>" not in text.text[begin:end]
            assert text.text[begin:end].endswith("<|im_end|>")


@pytest.mark.parametrize("category", ["result", "rounds"])
def test_results_are_said_after_the_calls_they_belong_to(category: str) -> None:
    source, seen = Source(6), 0
    for dialogue in (source.draw(category) for _ in range(NUMBER)):
        for before, results, answer in zip(
            dialogue.turns, dialogue.turns[1:], dialogue.turns[2:], strict=False
        ):
            if isinstance(results, Results):
                seen += 1
                assert isinstance(before, Assistant)
                assert isinstance(answer, Assistant)
                assert len(before.calls) == len(results.results)
                assert answer.content
                assert not answer.calls
    assert seen >= NUMBER / 2


def test_rounds_ask_for_several_tools_of_one_list() -> None:
    source, called = Source(8), []
    for dialogue in (source.draw("rounds") for _ in range(NUMBER)):
        answers = [turn for turn in dialogue.turns if isinstance(turn, Assistant)]
        called.append(len({call.name for answer in answers for call in answer.calls}))
        assert called[-1] <= len(dialogue.tools) <= MOST_TOOLS
    assert sum(number > 1 for number in called) > 0.8 * NUMBER


def test_what_no_tool_of_the_list_is_for_is_said_to_be_so() -> None:
    source, absent = Source(14), 0
    for dialogue in (source.draw("rounds") for _ in range(NUMBER)):
        answers = [turn.content for turn in dialogue.turns if isinstance(turn, Assistant)]
        absent += any(text in talk.NO_TOOL.values() for text in answers)
    assert absent > NUMBER / 10


def test_a_result_is_told_by_what_its_call_was_about() -> None:
    source, several = Source(15), 0
    for dialogue in (source.draw("result") for _ in range(NUMBER)):
        text = render(dialogue).text
        for before, results in zip(dialogue.turns, dialogue.turns[1:], strict=False):
            if isinstance(before, Assistant) and isinstance(results, Results):
                several += len(before.calls) > 1
                for call, result in zip(before.calls, results.results, strict=True):
                    about = f"{call.subject}: " if call.subject else ""
                    assert f"<tool_response>\n{about}{result}\n</tool_response>" in text
    assert several


@pytest.mark.parametrize(
    ("form", "mood", "said"),
    [
        ("{ticket} waits for {blocker}", "order", "value"),
        ("i need a car in {city}", "question", "statement"),
        ("{answer}", "question", "question"),
        ("answer {ticket}", "order", "order"),
        ("which train leaves at {time}", "question", "question"),
    ],
)
def test_what_is_stated_is_neither_an_order_nor_a_question(
    form: str, mood: Mood, said: Mood
) -> None:
    assert mood_of(form, mood) == said


def test_what_is_stated_is_neither_ordered_nor_asked() -> None:
    words = Words(random.Random(4), "en")
    texts = [wrap("milk is out", "value", words) for _ in range(400)]
    assert not any("?" in text or "you milk" in text or "tell me" in text for text in texts)
    assert len({text.partition("milk")[0] for text in texts}) > 10
    assert all("milk is out" in text for text in texts), "a value keeps its letters"


def test_a_chinese_question_that_begins_with_a_value_is_one() -> None:
    weather = next(domain for domain in domains.domains() if domain.group == "weather")
    words = Words(random.Random(4), "zh")
    tasks = [domains.draw(weather, words) for _ in range(60)]
    assert {task.mood for task in tasks} == {"order", "question"}


def test_what_is_asked_without_its_name_is_a_noun_of_the_lists() -> None:
    listed = {noun for _, section in verbs.nouns() for noun in section.trained + section.held}
    assert set(verbs.questions()) <= listed
    assert all("{}" in text for asked in verbs.questions().values() for text in asked)


def test_groups_that_are_near_each_other_are_groups() -> None:
    groups = {domain.group for domain in domains.domains()}
    assert {group for cluster in clusters() for group in cluster} <= groups


def test_kept_values_are_not_trained_on() -> None:
    from trainer.words import Words, sections

    cities = sections("words_en")["city"]
    assert not set(cities.held) & set(cities.trained)
    source = Source(7)
    trained = Words(source.rng, "en")
    assert set(cities.held).isdisjoint(trained.pick("city") for _ in range(500))
    assert "Beijing" not in cities.trained  # the demo's own
    assert "Shanghai" not in cities.trained


def test_unseen_tools_share_no_name_with_trained_ones() -> None:
    known = {name for domain in domains.domains() for name in domain.names}
    unseen = {name for domain in domains.domains(domains.UNSEEN) for name in domain.names}
    assert unseen
    assert unseen == domains.kept_names()
    assert known.isdisjoint(unseen)
    source = Source(12, known=0.0)
    drawn = {tool.name for _ in range(NUMBER) for tool in source.draw("rounds").tools}
    assert drawn.isdisjoint(unseen)


def test_what_is_written_by_hand_is_kept_out_of_the_training() -> None:
    assert len(handwritten.conversations()) == 100
    texts = corpus.texts(9, 300)
    said = {f"<|im_start|>user\n{message}<|im_end|>" for message in handwritten.messages()}
    assert not any(each in text.text for text in texts for each in said)


def test_what_is_written_by_hand_keeps_to_its_tools() -> None:
    for each in handwritten.conversations():
        schemas = {tool.name: tool.openai()["function"]["parameters"] for tool in each.tools}
        for call in each.calls:
            jsonschema.validate(
                call.arguments, schemas[call.name] | {"additionalProperties": False}
            )
        assert isinstance(each.turns[-1], User | Results)


@pytest.mark.parametrize(
    "written",
    [
        "Alerts that are open: list_alerts()",
        "Current weather: get_weather(city, unit?: celsius|fahrenheit)",
        "order(items: [{name, quantity: integer}], to?: {street, zip?: integer}, tags: [string*3])",
    ],
)
def test_a_tools_line_is_read_back(written: str) -> None:
    assert line(parse(written)) == written


def test_a_tool_that_is_none() -> None:
    with pytest.raises(ValueError, match="not a tool"):
        parse("no parentheses")
    with pytest.raises(ValueError, match="never closed"):
        parse("name(city")
