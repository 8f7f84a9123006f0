"""The tools of a conversation, at each place of its history."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_core.chat_request import AllowedTools, NamedTool
from toolgate_core.errors import UnknownTool
from toolgate_core.tools import OnInvalid, Tool, parse_tools
from toolgate_core.toolset import Toolset


def tool(name: str, **properties: Any) -> Tool:
    parameters = {"type": "object", "properties": properties}
    [parsed] = parse_tools(
        [{"type": "function", "function": {"name": name, "parameters": parameters}}]
    )
    return parsed


SEARCH, LOOK, WALK = tool("search"), tool("look"), tool("walk")


class Loads:
    """A deferred tool, and how often it was read."""

    def __init__(self, loaded: Tool | None) -> None:
        self.loaded, self.count = loaded, 0

    def __call__(self, _: OnInvalid) -> Tool | None:
        self.count += 1
        return self.loaded


def names(tools: tuple[Tool, ...]) -> list[str]:
    return [each.name for each in tools]


def begun(*tools: Tool, **deferred: Loads) -> Toolset:
    toolset = Toolset(tools, deferred)
    toolset.begin()
    return toolset


def test_a_deferred_tool_is_read_and_shown_where_it_is_added_first() -> None:
    load = Loads(LOOK)
    toolset = begun(SEARCH, look=load)
    assert (names(toolset.loaded), load.count) == (["search"], 0)
    assert toolset.add("look") is LOOK
    assert toolset.add("look") is None
    assert load.count == 1
    assert names(toolset.loaded) == ["search", "look"]
    assert names(toolset.beginning) == ["search"]


def test_changes_before_the_first_turn_are_changes_of_the_beginning() -> None:
    toolset = Toolset([SEARCH, WALK], {"look": Loads(LOOK)})
    assert toolset.add("look") is None
    toolset.remove("walk")
    toolset.begin()
    assert names(toolset.beginning) == names(toolset.loaded) == ["search", "look"]


def test_a_removed_tool_stays_in_the_prompt_and_can_be_added_again() -> None:
    toolset = begun(SEARCH, LOOK)
    toolset.remove("look")
    assert names(toolset.loaded) == ["search"]
    assert names(toolset.beginning) == ["search", "look"]
    assert toolset.add("look") is None
    assert names(toolset.loaded) == ["search", "look"]


def test_another_definition_replaces_the_earlier_one_and_is_shown() -> None:
    toolset = begun(LOOK)
    other = tool("look", far={"type": "boolean"})
    assert toolset.define(tool("look")) is None
    assert toolset.define(other) is other
    assert toolset.loaded == (other,)
    assert toolset.beginning == (LOOK,)


def test_unknown_tools_and_those_left_out() -> None:
    toolset = Toolset([SEARCH], {"look": Loads(None)}, {"web_search"})
    toolset.begin()
    for change in (toolset.add, toolset.remove):
        with pytest.raises(KeyError):
            change("walk")
    toolset.remove("web_search")
    assert toolset.add("web_search") is None
    assert toolset.add("look") is None
    assert names(toolset.loaded) == ["search"]


def test_a_choice_can_not_require_a_tool_that_is_not_loaded() -> None:
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
def test_other_choices_stay(choice: Any) -> None:
    assert begun(SEARCH).checked(choice) == choice
