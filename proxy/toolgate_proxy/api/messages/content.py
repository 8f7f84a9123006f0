"""Content blocks with text and images, in the form of chat templates."""

from __future__ import annotations

from collections.abc import Sequence

from toolgate_core.errors import UnsupportedParameter

from ...request_fields import Fields, invalid_value
from ..shared.history import History, Part
from ..shared.tool_changes import ADDITION, REMOVAL, Define, ToolChanges, text_part

TEXT_FIELDS = ("type", "text", "cache_control", "citations")
IMAGE_FIELDS = ("type", "source", "cache_control")
SEARCH_RESULT_FIELDS = ("type", "source", "title", "content", "citations", "cache_control")
CHANGE_FIELDS = ("type", "tool", "cache_control")
IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def check_fields(fields: Fields, known: Sequence[str]) -> None:
    """Raise UnsupportedParameter for a field that is not in `known`, and InvalidRequest for an
    invalid `cache_control`."""
    fields.check_known(known)
    fields.mapping("cache_control")  # prefixes are cached without it


def blocks_of(fields: Fields, name: str) -> list[tuple[Fields, str]]:
    """Return the blocks of a content with their types. A text is one block. Raise
    InvalidRequest."""
    content, path = fields.values.get(name), fields.path(name)
    if isinstance(content, str):
        return [(Fields({"type": "text", "text": content}, path), "text")]
    if not isinstance(content, list):
        raise invalid_value(path, "a string or an array of content blocks", content)
    blocks = []
    for at, block in enumerate(content):
        inner = Fields.of(block, f"{path}[{at}]", "a content block")
        kind = inner.given_text("type", "the type of a content block")
        blocks.append((inner, kind))
    return blocks


def unsupported_block(fields: Fields, kind: str, where: str, known: Sequence[str]) -> Exception:
    reason = {
        "tool_reference": "Put it into the result of a call.",
        "tool_addition": "Put it into a message of the role system.",
        "tool_removal": "Put it into a message of the role system.",
        "container_upload": "Files are not stored. Send the text of the file.",
        "document": "Use text.",
    }.get(kind, f"Use {', '.join(known)}.")
    return UnsupportedParameter(
        f"A content block of the type {kind!r} is not supported in {where}. {reason}",
        param=fields.path("type"),
    )


def read_part(fields: Fields, kind: str) -> list[Part] | None:
    """Return the parts of a block with text, an image or a search result; None for a block of
    another type. An empty text has no part."""
    match kind:
        case "text":
            text = read_text(fields)
            return [text_part(text)] if text else []
        case "image":
            return [_image(fields)]
        case "search_result":
            return [_search_result(fields)]
    return None


def read_text(fields: Fields) -> str:
    check_fields(fields, TEXT_FIELDS)
    return fields.given_text("text")


def source_of(fields: Fields) -> tuple[Fields, str]:
    """Return the source of an image or a file, with its type. Raise InvalidRequest and
    UnsupportedParameter."""
    inner = fields.inner("source", "an object with a type")
    kind = inner.given_text("type", "the type of a source")
    if kind == "file":
        problem = "is 'file', but files are not stored. Send the content itself."
        raise inner.refusal("type", problem)
    return inner, kind


def _image(fields: Fields) -> Part:
    """Return the image as a part. The engine fetches and checks it."""
    check_fields(fields, IMAGE_FIELDS)
    source, kind = source_of(fields)
    if kind == "url":
        url = source.text("url")
        if not url or url.startswith("data:"):
            raise source.wrong("url", "an http or https URL")
    elif kind == "base64":
        media_type = source.text("media_type")
        if media_type not in IMAGE_TYPES:
            raise source.wrong("media_type", f"one of {', '.join(IMAGE_TYPES)}")
        data = source.required_text("data", "the image in base64")
        url = f"data:{media_type};base64,{data}"
    else:
        raise source.wrong("type", '"base64" or "url"')
    return {"type": "image_url", "image_url": {"url": url}}


def _search_result(fields: Fields) -> Part:
    check_fields(fields, SEARCH_RESULT_FIELDS)
    refuse_citations(fields)
    texts = [text for name in ("title", "source") if (text := fields.text(name))]
    for block, kind in blocks_of(fields, "content"):
        if kind != "text":
            raise unsupported_block(block, kind, "a search result", ("text",))
        texts.append(read_text(block))
    return text_part("\n".join(texts))


def refuse_citations(fields: Fields) -> None:
    """Raise UnsupportedParameter for a block with citations."""
    citations = fields.mapping("citations") or {}
    if citations.get("enabled"):
        problem = "is enabled, but open models do not write citations. Remove it."
        raise fields.refusal("citations", problem)


def read_system(
    fields: Fields,
    name: str,
    history: History,
    changes: ToolChanges | None = None,
    define: Define | None = None,
) -> list[Part]:
    """Return the content of the system prompt, or with `changes` that of a message of the role
    system, which can add and remove tools. `define` parses a tool. Raise InvalidRequest,
    UnknownTool and UnsupportedParameter."""
    if not isinstance(fields.values.get(name), str | list):
        raise fields.wrong(name, "a string or an array of text blocks")
    parts = []
    for block, kind in blocks_of(fields, name):
        if kind in (ADDITION, REMOVAL) and changes is not None and define is not None:
            check_fields(block, CHANGE_FIELDS)
            changes.read(block, kind, define)
        elif kind != "text":
            where = "a system prompt" if changes is None else "a system message"
            known = ("text",) if changes is None else ("text", ADDITION, REMOVAL)
            raise unsupported_block(block, kind, where, known)
        elif text := history.system(read_text(block), block.place):
            parts.append(text_part(text))
    if changes is not None:
        return [*parts, *changes.parts(heading=True)]
    return [text_part("\n\n".join(part["text"] for part in parts))] if parts else []
