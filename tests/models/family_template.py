"""Chat templates in the form of a dialect, made from the dialect: for models with random weights.

A template renders system, user and tool messages in ChatML, tools as JSON in the system message,
and messages of the assistant in the dialect's form.
"""

import json
import re
from dataclasses import dataclass

from toolgate_core.dialects import dialect as forms
from toolgate_core.dialects.dialect import ARGUMENTS, ID, NAME, CallIds, Calls, Dialect

from .tiny_random import TEMPLATES

PASS_BACK = {
    *("deepseek_v32", "deepseek_v4", "deepseek_v41", "glm45", "glm47", "kimi_k2", "kimi_k3"),
    *("minimax_m2", "nemotron3", "qwen3", "qwen3_5", "reka", "seed_oss", "step3_5"),
}
"""Dialects of models whose own chat templates render the reasoning of earlier turns."""
END = "<|im_end|>"
"""Ends all messages, except those of the assistant if the dialect names its end-of-turn tokens."""


@dataclass(frozen=True)
class TurnTexts:
    """The text before a message of the assistant, and the tokens after it."""

    header: str
    after_content: str
    after_calls: str


def turn_texts(dialect: Dialect) -> TurnTexts:
    return TurnTexts(
        header=dialect.content.turn or "<|im_start|>assistant\n",
        after_content=next(iter(dialect.ends_after_content), END),
        after_calls=next(iter(dialect.calls.ends), END) if dialect.calls else END,
    )


def chat_template(dialect: Dialect) -> str:
    """Raises ValueError if the dialect has no calls."""
    calls, turn = dialect.calls, turn_texts(dialect)
    if calls is None:
        raise ValueError(f"The dialect {dialect.name} has no form for calls.")
    filled = {
        "PROMPT_REASONING": _prompt_reasoning(dialect),
        "CONTENT_BEFORE_CALLS": _content_before_calls(dialect),
        "CALLS_END": quoted(calls.end + turn.after_calls),
        "SEPARATOR": quoted(calls.separator),
        "REASONING": _reasoning(dialect),
        "CONTENT": _content(dialect, turn.after_content),
        "HEADER": quoted(turn.header),
        "BEGIN": quoted(calls.begin),
        "CALL": _call(calls),
    }
    messages = re.sub(r"@([A-Z_]+)@", lambda found: filled[found[1]], TEMPLATES["messages"])
    body = TEMPLATES["text"] + write_macro(calls.codec) + messages
    missing = [text for text in dialect.recognition.template if text not in body]
    return ("{#- " + " ".join(missing) + " #}" if missing else "") + body.strip()


# --- reasoning and content ---


def _line_break(dialect: Dialect) -> str:
    """The text around the reasoning, from the transcripts."""
    assert dialect.reasoning is not None
    end = "\n" + dialect.reasoning.end
    return "\n" if any(each.reasoning and end in each.text for each in dialect.goldens) else ""


def _reasoning(dialect: Dialect) -> str:
    """Writes the reasoning. Empties `thought` if the family leaves it out."""
    form = dialect.reasoning
    if form is None:
        return "{%- set thought = '' %}"
    around = _line_break(dialect)
    begin, end = quoted(form.begin + around), quoted(around + form.end)
    passed = "true" if dialect.name in PASS_BACK else "loop.index0 > seen.last_user"
    # Text that ends with the content begins with it, and is left out before calls.
    after = quoted(form.after)
    if _content_end(dialect) and form.after.strip():
        after = f"('' if calls else {after})"
    return (
        f"{{%- set thought = thought.strip('\\n') if {passed} else '' %}}"
        f"{{%- if thought %}}{{{{- {begin} ~ thought ~ {end} ~ {after} }}}}{{%- endif %}}"
    )


def _content_end(dialect: Dialect) -> str:
    """The text after content that follows reasoning."""
    return dialect.reasoning.content_end if dialect.reasoning else ""


def _prompt_reasoning(dialect: Dialect) -> str:
    """An empty reasoning if it is turned off. The beginning of the reasoning if the family's
    prompts have it."""
    form = dialect.reasoning
    if form is None:
        return ""
    around = _line_break(dialect)
    thoughts = [each for each in dialect.goldens if each.reasoning]
    opens = bool(thoughts) and all(each.reasoning_open for each in thoughts)
    opened = f"{{{{- {quoted(form.begin + around)} }}}}" if opens else ""
    if form.switch is None or form.switch.off is None:
        return opened
    empty = quoted(form.begin + 2 * around + form.end + form.after)
    name, off = form.switch.argument, json.dumps(form.switch.off)
    condition = f"{name} is defined and {name} == {off}"
    return f"{{%- if {condition} %}}{{{{- {empty} }}}}{{%- else %}}{opened}{{%- endif %}}"


def _content(dialect: Dialect, after: str) -> str:
    content = dialect.content
    begin, end = quoted(content.begin), quoted(content.end + content.last + after)
    closing = quoted(_content_end(dialect))
    return f"{begin} ~ said ~ ({closing} if thought else '') ~ {end}"


def _content_before_calls(dialect: Dialect) -> str:
    content = dialect.content
    if dialect.calls is None or dialect.calls.only_at_start:
        return ""
    if not content.begin:
        return "{%- if said %}{{- said ~ '\\n' }}{%- endif %}"
    if not content.preamble:
        return ""
    written = f"{{{{- {quoted(content.preamble)} ~ said ~ {quoted(content.preamble_end)} }}}}"
    return written if content.always else f"{{%- if said %}}{written}{{%- endif %}}"


# --- calls ---


def _call(calls: Calls) -> str:
    slots = {
        NAME: "{{- function.name }}",
        ARGUMENTS: "{{- write(function.arguments) }}",
        ID: "{{- written }}",
    }
    parts = [
        f"{{{{- {quoted(part)} }}}}" if isinstance(part, str) else slots[part]
        for part in calls.call
    ]
    return "".join([_written_id(calls.ids) if calls.ids else "", *parts])


def _written_id(ids: CallIds) -> str:
    """Sets `written`, the text at the place of the id: from the id in the API, or a number if that
    is not in the family's form."""
    before, _, after = ids.form.partition("{id}")
    if after:
        raise ValueError(f"Ids of the form {ids.form!r} cannot be rendered.")
    prefix = quoted(before).replace("{name}", '" ~ function.name ~ "')
    if ids.kind == "random":
        fits = f"written | length == {ids.length}"
        number = f"({quoted('0' * ids.length)} ~ seen.calls)[-{ids.length}:]"
    else:
        fits = "written.isdigit()"
        counted = "seen.calls" if ids.kind == "conversation" else "loop.index0"
        number = f"{counted} + {ids.first}"
    return (
        f"{{%- set prefix = {prefix} %}}{{%- set written = (each.id or '')[prefix | length:] %}}"
        f"{{%- if not {fits} %}}{{%- set written = {number} %}}{{%- endif %}}"
    )


# --- arguments: Jinja macros that write them in the form of a codec ---


_JSON_VALUE = "{{- given | tojson }}"
_COMMA = "{%- if not loop.first %}{{- @COMMA@ }}{%- endif %}"


def quoted(text: str) -> str:
    """A string literal of Jinja, which reads escapes as Python does."""
    return json.dumps(text, ensure_ascii=False)


def write_macro(codec: forms.Codec) -> str:
    """The macro `write`, which writes the arguments of a call, and those that it uses. Arguments
    that are already text are written as they are."""
    match codec:
        case forms.Json():
            separators = f"{quoted(codec.item_separator)}, {quoted(codec.key_separator)}"
            return _write(f"{{{{- arguments | tojson(separators=({separators})) }}}}")
        case forms.FlatTags():
            return TEMPLATES["kind"] + _write(_tagged(codec))
        case forms.NestedTags():
            return _nested(codec) + _write("{{- value(arguments) }}")
        case forms.GemmaValues():
            inner = "value(arguments)" if codec.braces else "value(arguments)[1:-1]"
            return _gemma(codec) + _write(f"{{{{- {inner} }}}}")
        case forms.Pythonic():
            members = "{{- key ~ '=' ~ value(each) }}"
            return _pythonic(codec) + _write(_members("arguments.items()", members, ", "))


def _write(arguments: str) -> str:
    return TEMPLATES["write"].replace("@ARGUMENTS@", arguments)


def _value(*, string: str, boolean: str, null: str, mapping: str, array: str) -> str:
    parts = {"STRING": string, "BOOLEAN": boolean, "NULL": null, "OBJECT": mapping, "ARRAY": array}
    macro = TEMPLATES["value"]
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


def _tagged(codec: forms.FlatTags) -> str:
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


def _nested(codec: forms.NestedTags) -> str:
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


def _gemma(codec: forms.GemmaValues) -> str:
    quote = quoted(codec.quote)
    members = _members("given | dictsort(true)", "{{- key ~ ':' ~ value(each) }}", ",")
    return _value(
        string=f"{{{{- {quote} ~ given ~ {quote} }}}}",
        boolean=_JSON_VALUE,
        null=_JSON_VALUE,
        mapping=f"{{{{- '{{' }}}}{members}{{{{- '}}' }}}}",
        array=f"{{{{- '[' }}}}{_items('{{- value(each) }}', ',')}{{{{- ']' }}}}",
    )


def _pythonic(codec: forms.Pythonic) -> str:
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
