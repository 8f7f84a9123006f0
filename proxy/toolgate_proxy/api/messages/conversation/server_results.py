"""Results in the history of calls that the gateway or another service ran: searches for tools and
in the web, and tools of MCP servers."""

from __future__ import annotations

from toolgate_core.toolset import Toolset

from ....request_fields import Fields
from ....sealing import OwnerSeal
from ...shared.history import History, text_of
from ...shared.mcp import McpOutcome
from ...shared.tool_search import found_content
from ...shared.web_fetch import Fetched, fetched_text
from ...shared.web_search import Page, opened, results_text
from .content import Content

SERVER_NAMES = ("tool_search_tool_bm25", "tool_search_tool_regex", "web_search", "web_fetch")
"""Names of the tools."""


def result_content(
    block: Fields, kind: str, tools: Toolset, seal: OwnerSeal | None, history: History
) -> Content:
    """Return what the model sees of a result; "" for a block of another type, and for one that
    can't be read. Tools that were found are loaded."""
    content = block.values.get("content")
    match kind:
        case "tool_search_tool_result" if isinstance(content, dict):
            return _found(content, tools)
        case "web_search_tool_result" if isinstance(content, dict):
            return results_text((), text_of(content.get("error_code")))
        case "web_search_tool_result" if isinstance(content, list):
            return _pages(content, seal, history, block.place)
        case "web_fetch_tool_result" if isinstance(content, dict):
            return _page(content)
        case "mcp_tool_result":
            text = text_of(content)
            is_error = block.values.get("is_error") is True
            return (McpOutcome(error=text) if is_error else McpOutcome(text)).text
    return ""


def _found(content: dict[str, object], tools: Toolset) -> Content:
    found = content.get("tool_references")
    if not isinstance(found, list):
        return text_of(content.get("error_message")) or text_of(content.get("error_code"))
    names = [each.get("tool_name") for each in found if isinstance(each, dict)]
    return found_content([name for name in names if isinstance(name, str)], tools)


def _page(content: dict[str, object]) -> str:
    """Return the text of a page, or of an error; "" if it has none, as a PDF."""
    if (code := text_of(content.get("error_code"))) != "":
        return fetched_text(Fetched("", problem=code))
    document = content.get("content")
    source = document.get("source") if isinstance(document, dict) else None
    data = source.get("data") if isinstance(source, dict) else None
    if not isinstance(document, dict) or source is None or source.get("type") != "text":
        return ""
    title, text = text_of(document.get("title")), text_of(data)
    return fetched_text(Fetched(text_of(content.get("url")), title, text))


def _pages(content: list[object], seal: OwnerSeal | None, history: History, path: str) -> Content:
    """The texts of pages are encrypted for their owner. Those of another service are left out."""
    pages = []
    for each in content:
        if not isinstance(each, dict) or not isinstance(each.get("url"), str):
            continue
        text = opened(seal, each.get("encrypted_content"))
        if text is None:
            history.note("as_text", path)
        title, age = text_of(each.get("title")), text_of(each.get("page_age"))
        pages.append(Page(each["url"], title, text or "", age or None))
    return results_text(pages)
