"""Jinja macros that write the arguments of a call in the form of a codec."""

from __future__ import annotations

import json

from toolgate_core.dialects.codecs import Codec, GemmaValues, Json, NestedTags, Pythonic, Tagged

_KIND = """
{%-macro kind(value) -%}
    {{- 'string' if value is string else 'null' if value is none else 'boolean' if value is boolean
        else 'integer' if value is integer else 'number' if value is number
        else 'object' if value is mapping else 'array' }}
{%- endmacro %}
"""
# For codecs with values inside values. The parts in capitals are those of the codec.
_VALUE = """
{%-macro value(given) -%}
    {%- if given is string %}@STRING@
    {%- elif given is boolean %}@BOOLEAN@
    {%- elif given is none %}@NULL@
    {%- elif given is mapping %}@OBJECT@
    {%- elif given is iterable %}@ARRAY@
    {%- else %}{{- given | tojson }}
    {%- endif %}
{%- endmacro %}
"""
_JSON_VALUE = "{{- given | tojson }}"
# Without a space after `{%-`, because some templates are recognised by having no macros.
_WRITE = """
{%-macro write(given) -%}
    {%- if given is string %}{{- given }}
    {%- else %}{%- set arguments = given or {} %}@ARGUMENTS@
    {%- endif %}
{%- endmacro %}
"""
_COMMA = "{%- if not loop.first %}{{- @COMMA@ }}{%- endif %}"


def quoted(text: str) -> str:
    """A string literal of Jinja, which reads escapes as Python does."""
    return json.dumps(text, ensure_ascii=False)


def write_macro(codec: Codec) -> str:
    """The macro `write`, which writes the arguments of a call, and those that it uses. Arguments
    that are already text are written as they are."""
    match codec:
        case Json():
            separators = f"{quoted(codec.item_separator)}, {quoted(codec.key_separator)}"
            return _write(f"{{{{- arguments | tojson(separators=({separators})) }}}}")
        case Tagged():
            return _KIND + _write(_tagged(codec))
        case NestedTags():
            return _nested(codec) + _write("{{- value(arguments) }}")
        case GemmaValues():
            inner = "value(arguments)" if codec.braces else "value(arguments)[1:-1]"
            return _gemma(codec) + _write(f"{{{{- {inner} }}}}")
        case Pythonic():
            members = "{{- key ~ '=' ~ value(each) }}"
            return _pythonic(codec) + _write(_members("arguments.items()", members, ", "))


def _write(arguments: str) -> str:
    return _WRITE.replace("@ARGUMENTS@", arguments)


def _value(*, string: str, boolean: str, null: str, mapping: str, array: str) -> str:
    parts = {"STRING": string, "BOOLEAN": boolean, "NULL": null, "OBJECT": mapping, "ARRAY": array}
    macro = _VALUE
    for name, part in parts.items():
        macro = macro.replace(f"@{name}@", part)
    return macro


def _members(source: str, member: str, comma: str = "") -> str:
    """A loop over the members of an object, as `key` and `each`."""
    separator = _COMMA.replace("@COMMA@", quoted(comma)) if comma else ""
    return f"{{%- for key, each in {source} %}}{separator}{member}{{%- endfor %}}"


def _items(item: str, comma: str = "") -> str:
    """A loop over the items of an array, as `each`."""
    separator = _COMMA.replace("@COMMA@", quoted(comma)) if comma else ""
    return f"{{%- for each in given %}}{separator}{item}{{%- endfor %}}"


def _tagged(codec: Tagged) -> str:
    key = "key" + "".join(
        f" | replace({quoted(char)}, {quoted(text)})" for char, text in codec.escapes
    )
    types = ", ".join(f"{quoted(kind)}: {quoted(text)}" for kind, text in codec.types)
    middle = quoted(codec.middle).replace("{type}", f'" ~ {{{types}}}[kind(each)] ~ "')
    raw = "{{- each }}"
    if codec.cdata:
        wrapped = "{{- '<![CDATA[' ~ each ~ ']]>' }}"
        marked = "'<' in each or '&' in each or '\\n' in each"
        raw = f"{{%- if {marked} %}}{wrapped}{{%- else %}}{raw}{{%- endif %}}"
    separators = f"{quoted(codec.item_separator)}, {quoted(codec.key_separator)}"
    written = f"{{{{- each | tojson(separators=({separators})) }}}}"
    return _members(
        "arguments.items()",
        f"{{{{- {quoted(codec.begin)} ~ ({key}) ~ {middle} }}}}"
        f"{{%- if each is string %}}{raw}{{%- else %}}{written}{{%- endif %}}"
        f"{{{{- {quoted(codec.end)} }}}}",
    )


def _nested(codec: NestedTags) -> str:
    begin, end = quoted(f"{codec.namespace}<"), quoted(f"{codec.namespace}</")

    def tags(name: str) -> str:
        return f"{{{{- {begin} ~ {name} ~ '>' ~ value(each) ~ {end} ~ {name} ~ '>' }}}}"

    return _value(
        string="{{- given }}",
        boolean=_JSON_VALUE,
        null="",
        mapping=_members("given.items() if each is not none", tags("key")),
        array=_items(tags(quoted(codec.item))),
    )


def _gemma(codec: GemmaValues) -> str:
    quote = quoted(codec.quote)
    members = _members("given | dictsort(true)", "{{- key ~ ':' ~ value(each) }}", ",")
    return _value(
        string=f"{{{{- {quote} ~ given ~ {quote} }}}}",
        boolean=_JSON_VALUE,
        null=_JSON_VALUE,
        mapping=f"{{{{- '{{' }}}}{members}{{{{- '}}' }}}}",
        array=f"{{{{- '[' }}}}{_items('{{- value(each) }}', ',')}{{{{- ']' }}}}",
    )


def _pythonic(codec: Pythonic) -> str:
    quote = quoted(codec.quote)
    escapes = (("\\", "\\\\"), (codec.quote, f"\\{codec.quote}"), ("\n", "\\n"), ("\t", "\\t"))
    escaped = "given" + "".join(
        f" | replace({quoted(char)}, {quoted(text)})" for char, text in escapes
    )
    members = _members("given.items()", "{{- value(key) ~ ': ' ~ value(each) }}", ", ")
    mapping = f"{{{{- '{{' }}}}{members}{{{{- '}}' }}}}"
    return _value(
        string=f"{{{{- {quote} ~ ({escaped}) ~ {quote} }}}}",
        boolean="{{- 'True' if given else 'False' }}",
        null="{{- 'None' }}",
        mapping=_JSON_VALUE if codec.json_objects else mapping,
        array=f"{{{{- '[' }}}}{_items('{{- value(each) }}', ', ')}{{{{- ']' }}}}",
    )
