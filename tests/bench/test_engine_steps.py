"""Engine steps: the report of each kind, beside free and strict, and vLLM's engine loop."""

import json
import random
from collections import Counter
from typing import get_args

import jsonschema
import pytest

from bench.engine_steps import run
from bench.engine_steps.blocks import (
    COPIED,
    TEXTS,
    Block,
    Kind,
    Measured,
    Options,
    Session,
    Step,
    block_of,
)
from bench.engine_steps.process import in_new_process, measure, write
from bench.engine_steps.run import HEAD, lines, rows
from bench.support.strings import KEYWORDS, Strings, constrained
from bench.support.tools import natural_value, varied
from tests.models import tiny_model
from tests.models.tiny_random import TINY_VOCABULARY
from tests.support.installed import needs
from tests.support.shared_data import BFCL, TOOLS

STREAMS = 4


def block(us: float, step_ms: float = 1.0) -> Block:
    sections = {"schedule": us / 2, "bitmask": us / 2, "update": 0.0, "worker": 0.0}
    return Block(8.0, 8.0, sections, us + 1, us + 2, step_ms, 2 * step_ms, tokens_per_second=8e3)


FREE = Measured(block(10), [block(10), block(12), block(90)])
STRICT = Measured(block(60), [block(30), block(32), block(110)])
OURS = Measured(block(20), [block(14), block(16), block(13)], copied=256)


def test_times_are_beyond_free_and_ratios_to_strict():
    session = Session(
        8, "natural", {"free": FREE, "strict": STRICT, "structured_output": OURS}, checked=7
    )
    free, strict, ours = rows(session)
    assert (free.us, free.us_cold, free.strict_ratio) == (0, 0, None)
    assert (strict.us, strict.us_cold, strict.strict_ratio) == (20, 50, 1)
    assert (ours.us, ours.us_median, ours.us_process, ours.us_cold) == (4, 3, 4, 10)
    assert ours.strict_ratio == pytest.approx(4 / 20)
    assert ours.median_strict_ratio == pytest.approx(3 / 20)
    assert ours.cold_strict_ratio == pytest.approx(0.2)
    assert ours.process_strict_ratio == pytest.approx(4 / 20)
    assert [row.copied for row in rows(session)] == [0, 0, 256]
    assert ours.sections["bitmask"] == 7


def test_without_strict_there_is_no_ratio():
    session = Session(8, "random", {"free": FREE, "structured_output": OURS}, checked=7)
    assert [row.strict_ratio for row in rows(session)] == [None, None]


def test_steps_are_compared_with_free():
    slow = Measured(block(14), [block(14, step_ms=1.5)])
    session = Session(8, "natural", {"free": Measured(block(1), [block(1)]), "strict": slow}, 7)
    assert [row.step_ratio for row in rows(session)] == [1.0, 1.5]


def test_the_table_has_a_cell_for_each_column():
    session = Session(8, "natural", {"free": FREE, "strict": STRICT}, checked=7)
    table = lines(rows(session)).splitlines()
    assert [line.count("|") for line in table] == [len(HEAD) + 1] * 2


def test_a_block_sums_the_sections_of_its_steps():
    steps = [
        Step(
            2 * tokens,
            tokens,
            Counter({"schedule": tokens * 1000, "bitmask": 4000, COPIED: 9000}),
            at,
        )
        for tokens, at in [(0, 0.0), (2, 0.001), (4, 0.004)]
    ]
    found = block_of(steps, process_ns=60_000)
    assert found.by_section == pytest.approx(
        {"schedule": 1, "bitmask": 2, "update": 0, "worker": 0}
    )
    assert found.mean == pytest.approx(3)
    assert found.median == pytest.approx((3 + 2) / 2)
    assert (found.tokens, found.sequences) == pytest.approx((4, 2))
    assert (found.process, found.copied) == pytest.approx((10, 4500))
    assert found.step_ms == pytest.approx(2)


@needs(TOOLS)
@pytest.mark.parametrize("kind", get_args(Strings))
def test_values_obey_the_constraints_of_strings(kind):
    given = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"enum": ["c"]}}}
    rng, seen = random.Random(1), set()
    for _ in range(200):
        schema = constrained(given, kind, rng)
        seen |= schema["properties"]["a"].keys() & set(KEYWORDS)
        value = natural_value(schema, rng)
        jsonschema.validate(value, schema, format_checker=jsonschema.FormatChecker())
    assert seen


def test_a_varied_value_has_the_shape_of_the_given_one():
    schema = {"properties": {"chosen": {"enum": ["a", "b"]}}}
    value = {"free": ["one two", "three"], "chosen": "a", "count": 17, "none": None}
    other = varied(value, schema, random.Random(3))
    assert [len(each.split()) for each in other["free"]] == [2, 1]
    assert (other["chosen"] in "ab", other["none"]) == (True, None)
    assert 0 <= other["count"] < 100


@pytest.mark.slow  # vLLM's engine loop, for a benchmark
@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("natural", ["--threads", "--displace", "1", "--forward", "0.5"]),
        *((text, []) for text in TEXTS if text != "natural"),
    ],
)
@needs(BFCL)
def test_all_kinds_are_measured_and_their_tokens_checked(
    text, options, tmp_path, monkeypatch, capsys
):
    for name in run.ENVIRONMENT:
        monkeypatch.setenv(name, run.ENVIRONMENT[name])
    file = tmp_path / "found.json"
    arguments = [str(tiny_model()), "--streams", str(STREAMS), "--rounds", "1", "--steps", "20"]
    arguments += ["--text", text, "--json", str(file), *options]
    monkeypatch.setattr("sys.argv", ["engine-steps", *arguments])
    assert run.main() == 0
    found = json.loads(file.read_text())
    assert [each["kind"] for each in found] == list(get_args(Kind))
    for each in found:
        assert (each["streams"], each["text"]) == (STREAMS, text)
        assert each["tokens"] == 1
        assert each["checked"] > 3 * 2 * 20  # of three kinds, in a cold and a warm block each
    free, strict, *ours = found
    assert (free["us"], free["strict_ratio"], strict["strict_ratio"]) == (0, None, 1)
    for each in ours:
        assert each["strict_ratio"] == each["us"] / strict["us"]
    assert [each["sections"]["worker"] > 0 for each in found] == [False, True, True, True]
    words = 4 * -(-TINY_VOCABULARY // 32)
    assert [each["copied"] > words / 2 for each in found[:2]] == [False, True]  # some have no row
    assert found[-1]["copied"] > 0
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(found)


@pytest.mark.slow
@needs(BFCL)
def test_with_drafts_a_sequence_gets_more_than_one_token_in_a_step():
    model = str(tiny_model())
    options = Options(model, ["free", "structured_output"], rounds=1, steps=20, drafts=8)
    responses = write(model, "reference", 40)
    kinds = in_new_process(measure, options, "reference", STREAMS, responses).kinds
    (free,), (ours,) = kinds["free"].warm, kinds["structured_output"].warm
    assert free.tokens == free.sequences
    assert ours.tokens > ours.sequences


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["strict", "structured_output", "logits_processor"])
@needs(BFCL)
def test_a_token_that_a_mask_forbids_is_an_error(kind):
    """The check itself: a token in the middle of each response is replaced by a mark."""
    model = str(tiny_model())
    responses = [
        [*response[:9], response[0], *response[10:]] for response in write(model, "natural", 20)
    ]
    options = Options(model, ["free", kind], rounds=1, steps=20)
    with pytest.raises(AssertionError, match=rf"token 10 of {kind}-\d+ is masked"):
        in_new_process(measure, options, "natural", STREAMS, responses)
