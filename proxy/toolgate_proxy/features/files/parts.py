"""Files as content parts of each API."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from ...api.chat_completions.feature import ChatFeature
from ...api.messages.content import (
    blocks_of,
    check_fields,
    read_part,
    refuse_citations,
    source_of,
    unsupported_block,
)
from ...api.messages.feature import MessagesFeature
from ...api.responses.feature import ResponsesFeature
from ...api.shared.tool_changes import text_part
from ...request_fields import Fields
from ..parts import Parts
from .pdf import END, PDF, begin, wrapped
from .pdfs import Documents
from .reading import file_tokens, read_file, refuse_references

Part = dict[str, Any]
FILE_ID, FILE_URL = "files are not stored", "files are not fetched"
"""Why a file that is not in the request is refused."""
DOCUMENTS = Documents()


class FilesInChat(ChatFeature):
    PARTS: ClassVar = {"file": ("type", "file")}

    def part(self, fields: Fields) -> list[Part]:
        inner = fields.inner("file", "an object with file_data")
        refuse_references(inner, {"file_id": FILE_ID}, "file_data")
        return [read_file(inner, "file_data", fields, inner.text("filename"))]


class FilesInResponses(ResponsesFeature):
    PARTS: ClassVar = {"input_file": ("file_data", "filename", "detail", "file_id", "file_url")}

    def part(self, fields: Fields) -> list[Part]:
        refuse_references(fields, {"file_id": FILE_ID, "file_url": FILE_URL}, "file_data")
        return [read_file(fields, "file_data", fields, fields.text("filename"))]


class FilesInMessages(MessagesFeature):
    PARTS: ClassVar = {
        "document": ("type", "source", "title", "context", "citations", "cache_control")
    }

    def part(self, fields: Fields) -> list[Part]:
        check_fields(fields, self.PARTS["document"])
        refuse_citations(fields)
        source, kind = source_of(fields)
        title, context = fields.text("title"), fields.text("context")
        if kind == "text":
            data = source.given_text("data", "the text of the document")
            return [text_part(wrapped(data, title, context))]
        if kind == "content":
            parts = [text_part(begin(title, context))]
            for block, block_kind in blocks_of(source, "content"):
                if block_kind not in ("text", "image"):
                    raise unsupported_block(block, block_kind, "a document", ("text", "image"))
                parts += read_part(block, block_kind) or []
            return [*parts, text_part(END)]
        if kind == "base64":
            kind = source.text("media_type") or ""
            return [read_file(source, "data", fields, title, context, media_type=kind)]
        raise source.refusal(
            "type",
            f"is {kind!r}, but documents are not fetched. Send the document itself (a source of "
            "the type base64 or text).",
        )


SIZES: Mapping[str, Any] = {
    kind: (field, partial(file_tokens, member))
    for kind, field, member in (
        ("document", "source", "data"),
        ("file", "file", "file_data"),
        ("input_file", "file_data", "file_data"),
    )
}
FEATURE = Parts(
    chat=FilesInChat,
    responses=FilesInResponses,
    messages=FilesInMessages,
    later={PDF: lambda *request: DOCUMENTS.read(*request)},
    sizes=SIZES,
)
