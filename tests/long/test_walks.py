"""Random walks through masks: of hostile tools, and of real schemas in other scripts. No call is
invalid, no walk ends where nothing may follow, and what is wrong is found."""

import json
import time
from random import Random

import jsonschema
import numpy as np
import pytest

from tests.long import walks as walk
from tests.long.walks import parameters
from tests.support.dialects.codec_schemas import CODEC_SCHEMAS
from tests.support.dialects.codec_walks import CodecModel
from tests.support.effort import repeats, rotating
from tests.support.installed import needs
from tests.support.schemas.judge import schema_violation
from tests.support.schemas.scripts import SCRIPTS, transliterated
from tests.support.schemas.suites import FORMS, real_tools
from tests.support.shared_data import BFCL, MASKBENCH, path_of, records
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.grammars.engines.choice import NOT_XGRAMMAR
from toolgate_core import grammar_key
from toolgate_core.dialects.marks import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import ToolgateError
from toolgate_core.schema.canonical import canonical_json, canonical_parameters


def test_the_schemas_are_valid_and_different():
    made = [parameters(Random(seed)) for seed in range(60)]
    for schema in made:
        jsonschema.Draft202012Validator.check_schema(schema)
    assert len({str(schema) for schema in made}) > 50


# --- names and values in other scripts ---


def schemas():
    """All different schemas of objects of the data sets."""
    found = [*CODEC_SCHEMAS.values(), *(tool["parameters"] for tool in real_tools())]
    found += [t["function"].get("parameters") for r in records(BFCL) for t in r["tools"]]
    if path_of(MASKBENCH).exists():
        found += [record["schema"] for record in records(MASKBENCH)]
    return [*{json.dumps(each): each for each in found if isinstance(each, dict)}.values()]


def walk_twice(form, model, schema):
    """The walks that ended, after checking them."""
    try:
        canonical = canonical_parameters(schema)
    except ToolgateError:
        return 0
    text = canonical_json(canonical)
    made = model.compiler.compile("key", model.name, text)
    if form == "llguidance" and made.verdict.engine == "xgrammar":
        marked = json.loads(made.verdict.rewritten or text) | {NOT_XGRAMMAR: "asked for"}
        known = made.verdict.model_copy(update={"rewritten": canonical_json(marked)})
        made = model.compiler.compile("key", model.name, text, known)
    assert "misreads" not in str(made.verdict.reason)
    written = [model.walk(made.grammar, seed, limit=250) for seed in range(2 * bool(made.grammar))]
    for each in filter(None, written):
        value = json.loads(model.parsed(canonical, each))
        if not made.verdict.residual:
            assert schema_violation(canonical, value) is None, each
    return sum(each is not None for each in written)


@pytest.mark.exhaustive
@needs(BFCL)
@rotating("form", [*FORMS, "content", "llguidance"], one_in=7)
def test_calls_with_names_in_other_scripts_are_valid(form):
    """`content` is a format; `llguidance` are calls of qwen3 without the other engine."""
    dialect = DIALECTS[form if form in DIALECTS else "qwen3"]
    name = grammar_key.CONTENT if form == "content" else "f"
    model, some, ended = CodecModel(dialect, mark_texts(dialect), name), schemas(), 0
    for at, write in enumerate(SCRIPTS.values()):
        for schema in some[at :: repeats(len(some) // 2, nightly=80)]:
            ended += walk_twice(form, model, transliterated(schema, write))
    assert ended


# --- hostile tools ---


@pytest.mark.exhaustive
def test_walks_validate_calls_and_find_nothing_wrong():
    outcome = walk.run(1)
    assert outcome.violations == []
    assert outcome.counts["walks"] == walk.WALKS
    assert outcome.counts["calls: validated"] > 0
    assert outcome.counts["drafts"] > 0


def test_a_seed_that_does_not_end_is_a_violation(monkeypatch):
    def endless(seed, outcome):
        while True:
            time.sleep(0.1)

    monkeypatch.setattr(walk, "SEED_SECONDS", 1)
    monkeypatch.setattr(walk, "_run", endless)
    assert walk.run(1).violations == ["did not end within 1 s"]


@pytest.mark.slow
def test_masks_that_allow_too_much_are_found(monkeypatch):
    def everything(machine, row):
        row[:] = -1

    monkeypatch.setattr(Automaton, "fill_bitmask", everything)
    found = walk.run(1).violations
    assert sum("is refused" in each for each in found) > walk.WALKS // 3


@pytest.mark.slow
def test_a_mask_that_differs_after_a_rollback_is_found(monkeypatch):
    real, rolled_back = Automaton.fill_bitmask, Automaton.rollback
    state = {"back": False}

    def rollback(machine, count):
        rolled_back(machine, count)
        state["back"] = True

    def fill(machine, row):
        real(machine, row)
        if state.pop("back", False):
            row[np.flatnonzero(row)[0]] ^= 1

    monkeypatch.setattr(Automaton, "rollback", rollback)
    monkeypatch.setattr(Automaton, "fill_bitmask", fill)
    assert any("another mask after a rollback" in each for each in walk.run(1).violations)


@pytest.mark.slow
def test_arguments_that_violate_the_schema_are_found(monkeypatch):
    monkeypatch.setattr(
        walk, "calls_in", lambda _: [("tool_0", '{"surely not a name of a property": 1}')]
    )
    monkeypatch.setattr(walk, "tools", lambda _: [strict()])
    found = walk.run(1).violations
    assert found
    assert all("surely not a name" in each for each in found)


def strict():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    function = {"name": "tool_0", "parameters": schema | {"additionalProperties": False}}
    return {"type": "function", "function": function}
