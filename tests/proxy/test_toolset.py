"""The tools of a conversation, and the plan of a request."""

import pytest

from tests import tools
from toolgate_core.dialects.registry import DIALECTS, PLAIN
from toolgate_core.errors import InvalidTools, UnknownTool, UnsupportedParameter
from toolgate_core.tools import parse_tools
from toolgate_proxy.request.chat_request import AllowedTools, ChatRequest, NamedTool
from toolgate_proxy.request.plan import make_plan
from toolgate_proxy.request.toolset import Toolset

HERMES = DIALECTS["hermes"]
QWEN3 = DIALECTS["qwen3"]
TOOLS = parse_tools([tools.WEATHER, tools.TAGS])


def tool(name, parameters):
    function = {"name": name, "parameters": parameters}
    [parsed] = parse_tools([{"type": "function", "function": function}])
    return parsed


def request(**fields):
    return ChatRequest(request_id="r", model="m", messages=(), **{"tools": TOOLS, **fields})


@pytest.mark.parametrize(
    ("fields", "choice", "names", "max_calls"),
    [
        ({}, "auto", ["get_weather", "set_tags"], None),
        ({"parallel_tool_calls": False}, "auto", ["get_weather", "set_tags"], 1),
        ({"tool_choice": "none"}, "none", [], None),
        ({"tools": ()}, "none", [], None),
        ({"tool_choice": "required"}, "required", ["get_weather", "set_tags"], None),
        ({"tool_choice": NamedTool("set_tags")}, "required", ["set_tags"], 1),
    ],
)
def test_plan_has_the_choice_the_candidates_and_the_maximum_of_calls(
    fields, choice, names, max_calls
):
    plan = make_plan(request(**fields), QWEN3)
    assert plan.choice == choice
    assert [tool.name for tool in plan.candidates] == names
    assert plan.max_calls == max_calls


@pytest.mark.parametrize(
    ("fields", "error", "param"),
    [
        ({"tool_choice": NamedTool("nope")}, UnknownTool, "tool_choice"),
        ({"tool_choice": "required", "tools": ()}, InvalidTools, "tools"),
    ],
)
def test_impossible_requests_are_refused(fields, error, param):
    with pytest.raises(error) as refused:
        make_plan(request(**fields), HERMES)
    assert refused.value.param == param  # type: ignore[attr-defined]


def test_a_model_without_marker_tokens_supports_text_only():
    assert make_plan(request(tools=()), PLAIN).choice == "none"
    with pytest.raises(UnsupportedParameter):
        make_plan(request(), PLAIN)


SEARCH, LOOK, WALK = (tool(name, {"properties": {}}) for name in ("search", "look", "walk"))


class Loads:
    """A deferred tool, and how often it was read."""

    def __init__(self, loaded):
        self.loaded, self.count = loaded, 0

    def __call__(self, _):
        self.count += 1
        return self.loaded


def names(tools):
    return [each.name for each in tools]


def begun(*tools, **deferred):
    toolset = Toolset(tools, deferred)
    toolset.begin()
    return toolset


def test_a_deferred_tool_is_read_and_shown_where_it_is_added_first():
    load = Loads(LOOK)
    toolset = begun(SEARCH, look=load)
    assert (names(toolset.loaded), load.count) == (["search"], 0)
    assert toolset.add("look") is LOOK
    assert toolset.add("look") is None
    assert load.count == 1
    assert names(toolset.loaded) == ["search", "look"]
    assert names(toolset.beginning) == ["search"]


def test_changes_before_the_first_turn_are_changes_of_the_beginning():
    toolset = Toolset([SEARCH, WALK], {"look": Loads(LOOK)})
    assert toolset.add("look") is None
    toolset.remove("walk")
    toolset.begin()
    assert names(toolset.beginning) == names(toolset.loaded) == ["search", "look"]


def test_a_removed_tool_stays_in_the_prompt_and_can_be_added_again():
    toolset = begun(SEARCH, LOOK)
    toolset.remove("look")
    assert names(toolset.loaded) == ["search"]
    assert names(toolset.beginning) == ["search", "look"]
    assert toolset.add("look") is None
    assert names(toolset.loaded) == ["search", "look"]


def test_another_definition_replaces_the_earlier_one_and_is_shown():
    toolset = begun(LOOK)
    other = tool("look", {"properties": {"far": {"type": "boolean"}}})
    assert toolset.define(LOOK) is None
    assert toolset.define(other) is other
    assert toolset.loaded == (other,)
    assert toolset.beginning == (LOOK,)


def test_unknown_tools_and_those_left_out():
    toolset = Toolset([SEARCH], {"look": Loads(None)}, {"web_search"})
    toolset.begin()
    for change in (toolset.add, toolset.remove):
        with pytest.raises(KeyError):
            change("walk")
    toolset.remove("web_search")
    assert toolset.add("web_search") is None
    assert toolset.add("look") is None
    assert names(toolset.loaded) == ["search"]


def test_a_choice_can_not_require_a_tool_that_is_not_loaded():
    toolset = begun(SEARCH, WALK, look=Loads(LOOK))
    toolset.remove("walk")
    for name in ("look", "walk"):
        with pytest.raises(UnknownTool, match="deferred") as refused:
            toolset.checked(NamedTool(name))
        assert refused.value.param == "tool_choice"
        with pytest.raises(UnknownTool):
            toolset.checked(AllowedTools("auto", (name,)))
    allowed = toolset.checked(AllowedTools("auto", ("look", "search")))
    assert allowed == AllowedTools("auto", ("search",))
    toolset.add("look")
    assert toolset.checked(NamedTool("look")) == NamedTool("look")


@pytest.mark.parametrize("choice", ["auto", "none", "required", NamedTool("other")])
def test_other_choices_stay(choice):
    assert begun(SEARCH).checked(choice) == choice
