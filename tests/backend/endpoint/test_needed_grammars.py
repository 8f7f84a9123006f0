"""The sources of the grammars that a request needs: from a tool in the prompt, or as such."""

import json
from pathlib import Path

import pytest

from toolgate_backend.endpoint.admission import needed_sources
from toolgate_core import wire
from toolgate_core.chat_shape import body_of, message_in
from toolgate_core.errors import InvalidRequest
from toolgate_core.grammar_key import tool_hash
from toolgate_core.tools import parse_tools

SCHEMAS = json.loads((Path(__file__).parents[2] / "support" / "tool_schemas.json").read_text())
SOURCE = wire.GrammarSource(key="c", name="", parameters={"type": "object"})


def tool(name, parameters, **more):
    return {"type": "function", "function": {"name": name, "parameters": parameters, **more}}


LOOK = tool("look", {"properties": {"a": {"type": "string"}}})


def request(*grammars, **more):
    given = {"request_id": "r", "model": "m", "prompt": wire.ChatPrompt(messages=(), tools=(LOOK,))}
    return wire.GenerateRequest(grammars=grammars, **given | more)


EXAMINED = wire.GrammarVerdict(key="k", status="ready", rewritten="{}")


@pytest.mark.parametrize("examined", [None, EXAMINED])
def test_a_source_is_used_with_owner_and_verdict(examined):
    needed = wire.NeededGrammar(key="c", source=SOURCE, owner="who", examined=examined)
    expected = SOURCE.model_copy(update={"owner": "who", "examined": examined})
    assert needed_sources(request(needed))["c"]() == expected


@pytest.mark.parametrize("examined", [None, EXAMINED])
def test_a_tool_is_read_in_the_prompt(examined):
    needed = wire.NeededGrammar(key="k", tool=0, owner="who", examined=examined)
    found = needed_sources(request(needed))["k"]()
    [parsed] = parse_tools([LOOK])
    assert (found.key, found.name, found.owner) == ("k", "look", "who")
    assert found.parameters == parsed.parameters
    assert found.examined == examined


@pytest.mark.parametrize("open_objects", [False, True])
def test_schemas_of_tools_are_those_of_the_gateway(open_objects):
    """Also after the messages were sent as JSON."""
    entries = [
        *(
            tool(each["name"], each["schema"], strict=at % 2 == 0)
            for at, each in enumerate(SCHEMAS)
        ),
        tool("nothing", None),
        tool("empty", {"type": "object", "properties": {}}),
        tool("null", {"properties": {"a": {"enum": [None, 1.0, 1e300, 2**80, "é\u2028"]}}}),
    ]
    offered = parse_tools(entries, open_objects=open_objects)
    followed = [each for each in offered if each.follows_from_definition]
    assert len(followed) > 20
    needed = [wire.NeededGrammar(key=each.hash, tool=at) for at, each in enumerate(followed)]
    prompt = wire.ChatPrompt(messages=(), tools=tuple(each.definition for each in followed))
    message = request(*needed, prompt=prompt, open_objects=open_objects)
    body = json.loads(body_of("generate", message, ""))
    arrived = wire.GenerateRequest.model_validate(message_in(body))
    for key, source in needed_sources(arrived).items():
        found = source()
        assert tool_hash(found.name, found.parameters) == key


def test_schemas_are_not_read_before_they_are_missing():
    broken = tool("broken", {"type": "strange"})
    prompt = wire.ChatPrompt(messages=(), tools=(broken,))
    found = needed_sources(request(wire.NeededGrammar(key="k", tool=0), prompt=prompt))
    assert list(found) == ["k"]
    with pytest.raises(InvalidRequest):
        found["k"]()


@pytest.mark.parametrize(
    ("needed", "more"),
    [
        ({}, {}),
        ({"tool": 1}, {}),
        ({"tool": 0}, {"prompt": wire.ChatPrompt(messages=())}),
        ({"tool": 0}, {"prompt": wire.TokensPrompt(token_ids=(1,))}),
    ],
)
def test_a_grammar_without_a_tool_is_refused(needed, more):
    found = needed_sources(request(wire.NeededGrammar(key="k", **needed), **more))
    with pytest.raises(InvalidRequest) as refused:
        found["k"]()
    assert refused.value.param == "grammars"


@pytest.mark.parametrize(
    "enforcement",
    [
        wire.Enforcement(candidates=(wire.Candidate(name="look", key="other"),)),
        wire.Enforcement(content="other"),
    ],
    ids=["tool", "content"],
)
def test_enforcement_names_grammars_of_the_request(enforcement):
    needed = wire.NeededGrammar(key="k", tool=0)
    with pytest.raises(InvalidRequest) as refused:
        needed_sources(request(needed, enforcement=enforcement))
    assert refused.value.param == "grammars"
