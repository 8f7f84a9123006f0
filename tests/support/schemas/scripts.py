"""Schemas in other scripts: their names and listed values, transliterated letter by letter."""

from string import ascii_lowercase


def _letters(letters):
    """Transliterate every second letter, so that hexadecimal digits follow."""
    table = dict(zip(ascii_lowercase, letters, strict=False))

    def written(text):
        return "".join(
            char if at % 2 else table.get(char, char)
            for at, char in enumerate(text, text.islower())
        )

    return written


def _inserted(*marks):
    def written(text):
        return "".join(char + marks[at % len(marks)] for at, char in enumerate(text))

    return written


SCRIPTS = {
    "latin1": _letters("àßçðéÿñøíþûüöôáâãäåæèêëìîï"),
    "greek": _letters("αβγδεζηθικλμνξοπρστυφχψωςϊ"),
    "arabic": _letters("ابتثجحخدذرزسشصضطظعغفقكلمنه"),
    "cjk": _letters("北京城市天氣溫度日期時間東西南號碼語言中文名"),
    "emoji": _letters("🙂🎉🌧🚀🏠📦🔥💧⭐🌍🐱🐶🌳🍎🎵📷💡🔑⚙🧭🛑🗓👍🏳🎯🧪"),
    "combining": _inserted("\u0301", "", "\u0323"),
    "right_to_left": lambda text: "\u202e" + _letters("אבגדהוזחטיכלמנסעפצקרשתךםןף")(text),
    "digits": lambda text: "".join(f"{char}é{at % 10}" for at, char in enumerate(text)),
    "line_ends": _inserted("\u0085", "\u2028", ""),
    "escapes": _inserted("\\", '"', "\\xe9", "\\u00", "\n", ""),
}
"""By name: the text for a text. Different texts stay different."""

_BY_NAME = ("properties", "dependentRequired", "dependentSchemas", "dependencies")
_OF_STRINGS = frozenset({"pattern", "format", "minLength", "maxLength"})


def transliterated(node, write):
    """Return a schema with its names of members and its listed values in another script."""
    if isinstance(node, list):
        return [transliterated(each, write) for each in node]
    if not isinstance(node, dict):
        return node
    made = {}
    for keyword, value in node.items():
        if keyword in _BY_NAME and isinstance(value, dict):
            made[keyword] = {
                write(name): list(map(write, each))
                if isinstance(each, list)
                else transliterated(each, write)
                for name, each in value.items()
            }
        elif keyword == "required" and isinstance(value, list):
            made[keyword] = list(map(write, value))
        elif keyword in ("enum", "const"):
            made[keyword] = value if _OF_STRINGS & node.keys() else _value(value, write)
        elif keyword in ("default", "example", "examples", "description", "title"):
            continue
        else:
            made[keyword] = transliterated(value, write)
    return made


def _value(value, write):
    if isinstance(value, list):
        return [_value(each, write) for each in value]
    if isinstance(value, dict):
        return {write(name): _value(each, write) for name, each in value.items()}
    return write(value) if isinstance(value, str) else value
