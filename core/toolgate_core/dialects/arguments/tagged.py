"""Arguments in tags: raw strings, all other values as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ...schema.types import ALL, argument_types
from ..dialect import FlatTags
from ..marks import Marks
from .parser import Scalars, SteppedParser, escaped

CDATA, CDATA_END = "<![CDATA[", "]]>"
_STRING_END = re.compile(r'["\\]')


class TaggedArguments(SteppedParser):
    """A value ends at the first `close` if it is raw, and at the first `end` outside a JSON string
    if it is JSON. If the schema allows strings and other types for an argument, and the family has
    no type attribute, a value is read as JSON if it is a scalar of an allowed type, or begins like
    an object or array and these are allowed. Masks let an undeclared argument of an open object be
    written twice; the JSON text then has it twice, too, and the last one counts."""

    def __init__(self, codec: FlatTags, parameters: Mapping[str, Any], marks: Marks) -> None:
        super().__init__(marks, TaggedArguments._between)
        self._codec = codec
        self._marks = marks
        self._parameters = parameters
        self._begin = marks.encode(codec.begin)
        before_type, has_type, after_type = codec.middle.partition("{type}")
        self._after_key = marks.encode(before_type)
        self._after_type = marks.encode(after_type) if has_type else None
        self._end_text = marks.encode(codec.end)
        close = marks.encode(codec.close)
        self._close = close if close in self._end_text else self._end_text
        self._lead = self._end_text[: self._end_text.index(self._close)]
        """The part of the end before `close`."""
        self._has_members = False
        self._types = ALL  # of the current value
        self._in_string = False
        self._escaped = False

    def cut(self) -> str:
        text, is_json = self._pending.text, self._step is TaggedArguments._json
        is_value = is_json or self._step in (TaggedArguments._raw, TaggedArguments._cdata)
        if self.finished or not is_value or any(map(self._marks.is_mark, text)):
            return ""  # a mark cannot be part of a value: the text is the beginning of its end
        return text if is_json else escaped(text)

    # --- steps ---

    def _between(self) -> str | None:
        begin = self._begin
        if self._pending.text.startswith(begin):
            self._pending.take(len(begin))
            self._step = TaggedArguments._key
            return ", " if self._has_members else "{"
        if begin.startswith(self._pending.text):
            return None
        self.finished = True
        return "}" if self._has_members else "{}"

    def _key(self) -> str | None:
        at = self._pending.text.find(self._after_key)
        if at < 0:
            return None
        key = self._unescaped(self._pending.text[:at])
        self._pending.check(self._pending.text[:at])
        self._pending.take(at + len(self._after_key))
        self._has_members = True
        self._types = argument_types(self._parameters, key)
        untyped = self._after_type is None
        self._step = TaggedArguments._value if untyped else TaggedArguments._type
        return json.dumps(key, ensure_ascii=False) + self._codec.key_separator

    def _type(self) -> str | None:
        after = self._after_type
        assert after is not None
        at = self._pending.text.find(after)
        if at < 0:
            return None
        attribute = self._pending.text[:at]
        types = frozenset(kind for kind, text in self._codec.types if text == attribute)
        if not types:
            raise self._pending.error(f"Unknown type attribute {attribute!r}.")
        self._pending.take(at + len(after))
        self._types = frozenset({"string"}) if "string" in types else types
        self._step = TaggedArguments._value
        return ""

    def _value(self) -> str | None:
        """Decides how the value is written."""
        if "string" not in self._types:
            return self._begin_json()
        if self._codec.cdata:
            if self._pending.text.startswith(CDATA):
                self._pending.take(len(CDATA))
                self._step = TaggedArguments._cdata
                return '"'
            if CDATA.startswith(self._pending.text):
                return None
        if self._types == {"string"}:
            return self._begin_raw()
        first = self._pending.text[:1]
        if not first:
            return None
        if (first == "{" and "object" in self._types) or (first == "[" and "array" in self._types):
            return self._begin_json()
        scalars = Scalars(self._types)
        at = self._pending.text.find(self._end_text)
        if at >= 0:
            scalar = scalars.matches(self._pending.text[:at])
            return self._begin_json() if scalar else self._begin_raw()
        known = self._pending.text[: self._pending.length_before(self._end_text)]
        return None if scalars.may_begin_with(known) else self._begin_raw()

    def _begin_json(self) -> str:
        self._step, self._in_string, self._escaped = TaggedArguments._json, False, False
        return ""

    def _begin_raw(self) -> str:
        self._step = TaggedArguments._raw
        return '"'

    def _raw(self) -> str | None:
        """Return a string until the first `close`."""
        at = self._pending.text.find(self._close)
        if at < 0:
            known = self._pending.length_before(self._end_text)
            return self._pending.take_string(known) if known else None
        value = self._pending.text[:at]
        if not value.endswith(self._lead):
            raise self._pending.error("A value is closed in an unexpected form.", at)
        written = self._pending.take_string(len(value) - len(self._lead))
        self._step = TaggedArguments._end
        return written + '"'

    def _cdata(self) -> str | None:
        string = self._pending.string_until(CDATA_END)
        if string is None or not string[1]:
            return string and string[0]
        self._pending.take(len(CDATA_END))
        self._step = TaggedArguments._end
        return string[0] + '"'

    def _json(self) -> str | None:
        """JSON until `end` outside a string."""
        end, text, at = self._end_text, self._pending.text, 0
        while at < len(text):
            if self._escaped:
                self._escaped, at = False, at + 1
            elif self._in_string:
                quote = _STRING_END.search(text, at)
                at = quote.end() if quote else len(text)
                if quote:
                    self._escaped = quote.group() == "\\"
                    self._in_string = self._escaped
            elif text.startswith(end, at):
                written = self._pending.take(at)
                self._step = TaggedArguments._end
                return written
            elif end.startswith(text[at:]):
                break
            else:
                self._in_string = text[at] == '"'
                at += 1
        self._pending.check(text[:at])
        return self._pending.take(at) if at else None

    def _end(self) -> str | None:
        end = self._end_text
        if self._pending.text.startswith(end):
            self._pending.take(len(end))
            self._step = TaggedArguments._between
            return ""
        if end.startswith(self._pending.text):
            return None
        raise self._pending.error("A value is closed in an unexpected form.")

    def _unescaped(self, key: str) -> str:
        for char, written in reversed(self._codec.escapes):
            key = key.replace(written, char)
        return key
