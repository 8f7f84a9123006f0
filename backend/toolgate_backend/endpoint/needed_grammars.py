"""The sources of the grammars that a request needs, from the request itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest
from toolgate_core.tools import parse_tools


def needed_sources(
    request: wire.GenerateRequest,
) -> Mapping[str, Callable[[], wire.GrammarSource]]:
    """Return a function for each key, which makes the source. Schemas of known grammars are not
    read. Raises InvalidRequest if `enforcement` names a grammar that the request does not have."""
    found = {each.key: partial(_source, each, request) for each in request.grammars}
    enforcement = request.enforcement
    if enforcement is not None:
        named = {enforcement.content, *(each.key for each in enforcement.candidates)} - {None}
        if not found.keys() >= named:
            raise InvalidRequest(
                "The request names a grammar that it does not have. Install the same Toolgate "
                "version on the gateway and the backend.",
                param="grammars",
            )
    return found


def _source(needed: wire.NeededGrammar, request: wire.GenerateRequest) -> wire.GrammarSource:
    prompt, source = request.prompt, needed.source
    tools = prompt.tools or () if isinstance(prompt, wire.ChatPrompt) else ()
    if source is None:
        if needed.tool is None or needed.tool >= len(tools):
            raise InvalidRequest("A grammar has neither a source nor a tool.", param="grammars")
        open_objects = request.open_objects is True
        [tool] = parse_tools([tools[needed.tool]], open_objects=open_objects)
        source = wire.GrammarSource(key=needed.key, name=tool.name, parameters=tool.parameters)
    return source.model_copy(update={"owner": needed.owner, "examined": needed.examined})
