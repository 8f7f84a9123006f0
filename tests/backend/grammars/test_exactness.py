"""The oracle of `python -m bench exactness`: it finds what masks wrongly forbid and allow."""

import pytest

from bench.exactness.cases import Case
from bench.exactness.engines import Engines, bytes_vocabulary
from bench.exactness.judgement import Judge
from bench.exactness.run import document, isolated
from tests.support.schemas.judge import COMPACT, written
from toolgate_core.schema.canonical import canonical_schema


# --- exactness ---
@pytest.fixture(scope="module")
def engines():
    return Engines(bytes_vocabulary())


def judged(engines, engine, schema, *values):
    case = Case("c", "suite", "g", schema, canonical_schema(schema, param="schema"), [*values])
    judge = Judge(case, engine, 1, counts=(30, 20))
    masks = engines.masks(engine, case.schema, case.canonical)
    judge.texts(engines, masks)
    judge.walks(engines, masks)
    return judge.judgement


def of(judgement, side, form=None):
    return [f for f in judgement.found if f.side == side and form in (None, f.form)]


def test_what_an_engine_forgets_is_found(engines):
    schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    found = judged(engines, "xgrammar", schema, [1, 2, 3])
    assert {f.keyword for f in of(found, "allowed")} == {"uniqueItems"}
    assert not found.residual
    assert judged(engines, "toolgate", schema, [1, 2, 3]).residual


def test_what_an_engine_forbids_is_found_with_its_place(engines):
    schema = {"type": "object", "properties": {"a": {"multipleOf": 2}, "b": {"type": "string"}}}
    found = of(judged(engines, "llguidance", schema, {"a": -4, "b": ""}), "forbidden", "given")
    assert [(f.kind, f.keyword, f.pointer) for f in found] == [("keyword", "multipleOf", "/a")]


def test_white_space_and_undeclared_members_have_causes_of_their_own(engines):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    found = judged(engines, "toolgate", schema, {"a": 1}, {"a": 1, "z": 2})
    assert [f.kind for f in of(found, "forbidden", "compact")] == ["white_space", "closed_object"]
    assert [(f.kind, f.pointer) for f in of(found, "forbidden", "given")] == [
        ("closed_object", "/z")
    ]


def test_masks_of_a_plain_schema_are_exact(engines):
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 3}, "b": {"enum": ["x", "y"]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    found = judged(engines, "toolgate", schema, {"a": 3, "b": "y"})
    assert found.valid_values
    assert found.invalid_values
    assert not of(found, "allowed")
    assert not of(found, "forbidden", "given")
    assert not of(found, "forbidden", "neighbour")
    assert found.walks > found.unended


def test_the_place_of_a_byte_is_that_of_the_innermost_part():
    text = written({"a/b": [1, "xy"]}, COMPACT, None)
    assert text.data == b'{"a/b":[1,"xy"]}'
    places = [text.pointer_at(at) for at in (0, 1, 6, 8, 9, 10, 15)]
    assert places == ["", "/a~1b", "", "/a~1b/0", "/a~1b/1", "/a~1b/1", ""]


def test_an_endless_engine_ends():
    def endless():
        while True:
            pass

    assert isolated(endless, 0.2) == {"failed": "time"}
    assert isolated(lambda: {"a": 1}, 10) == {"a": 1}


def test_the_report_counts_texts_and_schemas(engines):
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "integer"}}
    judgement = judged(engines, "xgrammar", schema, [1, 2])
    row = {"id": "c", "source": "suite", "seed": 1, "engine": "xgrammar"} | judgement.data()
    lines = document([row]).splitlines()
    count = len(of(judgement, "allowed"))
    assert f"| `uniqueItems` | 0 | 0 | 0 | 0 | {count} (1) | 0 |" in lines
