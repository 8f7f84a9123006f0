"""JSON Schema's keywords: the kind of their values, and the draft that introduced them. Its
formats: which ones masks enforce, as patterns, and which ones are left to validation.

A pattern accepts no string that validation (jsonschema-rs with format assertion) refuses; tests
check this. Comments list the valid strings that a pattern excludes.
"""

from __future__ import annotations

TYPE_NAMES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
"""The values of `type`."""

ANNOTATIONS = frozenset(
    {
        *("$comment", "$schema", "default", "deprecated", "description", "example"),
        *("examples", "readOnly", "title", "writeOnly"),
    }
)
"""Keywords that assert nothing (JSON Schema 2020-12, validation §9; OpenAPI 3's `example`)."""

SCHEMA_KEYWORDS = frozenset(
    {
        *("additionalItems", "additionalProperties", "contains", "contentSchema", "else"),
        *("if", "items", "not", "propertyNames", "then", "unevaluatedItems"),
        "unevaluatedProperties",
    }
)
"""Keywords whose value is a schema (or, for draft 7's `items`, a list of them)."""

SCHEMA_LIST_KEYWORDS = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
SCHEMA_MAP_KEYWORDS = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
DEFINITIONS = ("$defs", "definitions")

ASSERTIONS = frozenset(
    {
        *("$dynamicRef", "$ref", "additionalProperties", "allOf", "anyOf", "const"),
        *("contains", "dependentRequired", "dependentSchemas", "else", "enum"),
        *("exclusiveMaximum", "exclusiveMinimum", "format", "if", "items", "maxContains"),
        *("maxItems", "maxLength", "maxProperties", "maximum", "minContains", "minItems"),
        *("minLength", "minProperties", "minimum", "multipleOf", "not", "oneOf", "pattern"),
        *("patternProperties", "prefixItems", "properties", "propertyNames", "required"),
        *("then", "type", "unevaluatedItems", "unevaluatedProperties", "uniqueItems"),
    }
)
"""Every keyword of 2020-12 that can make an instance invalid. All others are ignored."""

SINCE = {
    "const": 6,
    "contains": 6,
    "propertyNames": 6,
    "if": 7,
    "then": 7,
    "else": 7,
    "dependentRequired": 2019,
    "dependentSchemas": 2019,
    "maxContains": 2019,
    "minContains": 2019,
    "unevaluatedItems": 2019,
    "unevaluatedProperties": 2019,
    "$dynamicRef": 2020,
    "prefixItems": 2020,
}
"""The draft that introduced a keyword. It is ignored in schemas of older drafts."""


# Excludes 0000. RFC 3339 allows it, but dates of Python and many other languages begin with 0001.
# Validation refuses it, too.
_YEAR = r"(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_LEAP = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    rf"|{_LEAP}-02-29)"
)
# Excludes leap seconds, which are valid at one time of a day only, and fractions of more than nine
# digits: a model that repeats a digit would write them until its tokens are used up.
_TIME = (
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?"
    r"(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_ATOM = r"[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"

PATTERNS: dict[str, tuple[str, ...]] = {
    "date": (f"^{_DATE}$",),
    "date-time": (f"^{_DATE}[tT]{_TIME}$",),
    "time": (f"^{_TIME}$",),
    # Excludes quoted local parts, address literals, and two hyphens in a row, which only punycode
    # needs (RFC 5890 §2.3.2.1).
    "email": (rf"^{_ATOM}(?:\.{_ATOM})*@{_DOMAIN}$", r"^[^@]{1,64}@(?:-?[^-])+$"),
    "hostname": (f"^{_DOMAIN}$", r"^(?:-?[^-])+$"),
    "json-pointer": (r"^(?:/(?:[^~/]|~[01])*)*$",),
    "relative-json-pointer": (r"^(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)$",),
}
LENGTHS = {"email": 254, "hostname": 253}
"""Maximum length of strings of a format, in addition to its patterns."""

WITH_YEAR = ("date", "date-time")
"""Formats of which the year 0000 is not accepted."""
YEAR_ZERO = "0000-"

BUILT_IN = frozenset({"duration", "ipv4", "ipv6", "uri", "uuid"})
"""Formats with patterns in llguidance that accept no string that validation refuses."""

CHECKED = frozenset(
    {
        *("idn-email", "idn-hostname", "iri", "iri-reference", "regex", "uri-reference"),
        "uri-template",
    }
)
"""Formats that only validation enforces. All other formats are annotations."""


# --- formats as patterns of raw text ---

_HEX = "[0-9A-Fa-f]"
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_GROUP = f"{_HEX}{{1,4}}"


def _ipv6() -> str:
    """RFC 4291 §2.2, without embedded IPv4 addresses: eight groups, or fewer with one `::`."""
    ways = [f"{_GROUP}(?::{_GROUP}){{7}}"]
    for before in range(7):
        left = f"{_GROUP}(?::{_GROUP}){{{before - 1}}}" if before else ""
        after = 6 - before
        right = f"(?:{_GROUP}(?::{_GROUP}){{0,{after}}})?"
        ways.append(f"{left}::{right}")
    ways.append(f"{_GROUP}(?::{_GROUP}){{6}}::")
    return "|".join(f"(?:{way})" for way in ways)


_DURATION_TIME = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DURATION_DATE = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_URI_CHAR = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
_URI_HOST = r"(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+"
_URI_TAIL = rf"(?:\?(?:{_URI_CHAR}|[\/?])*)?(?:#(?:{_URI_CHAR}|[\/?])*)?"

RAW_FORMATS = {
    "uuid": f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}",
    "ipv4": _IPV4,
    "ipv6": _ipv6(),
    # RFC 3339, appendix A.
    "duration": f"P(?:{_DURATION_DATE}(?:{_DURATION_TIME})?|{_DURATION_TIME}|[0-9]+W)",
    # RFC 3986 with an authority and without user information and IP literals, or without authority.
    "uri": (
        rf"[A-Za-z][A-Za-z0-9+.-]*:(?:\/\/{_URI_HOST}(?::[0-9]{{1,4}})?(?:\/{_URI_CHAR}*)*"
        rf"|{_URI_CHAR}+(?:\/{_URI_CHAR}*)*){_URI_TAIL}"
    ),
}
"""The formats that llguidance builds into JSON strings, as regular expressions for raw text. Each
accepts no string that validation refuses; tests check this."""

_ADDRESS = "|".join(
    [
        *(f"(?:{_GROUP}:){{7}}{_GROUP}", f"(?:{_GROUP}:){{1,7}}:", f":(?::{_GROUP}){{1,7}}", "::"),
        *(f"(?:{_GROUP}:){{1,{7 - n}}}(?::{_GROUP}){{1,{n}}}" for n in range(1, 7)),
        r"v[0-9a-fA-F]+\.[a-zA-Z0-9._~!$&'()*+,;=:-]+",
    ]
)
_USER = r"(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*"
_URI = (
    rf"[A-Za-z][A-Za-z0-9+.-]*:(?:\/\/(?:{_USER}@)?(?:\[(?:{_ADDRESS})\]|(?:{_URI_HOST})?)"
    rf"(?::[0-9]*)?(?:\/{_URI_CHAR}*)*|\/?(?:{_URI_CHAR}+(?:\/{_URI_CHAR}*)*)?){_URI_TAIL}"
)
"""llguidance's own, in JSON."""
LANGUAGES = {
    **{name: (RAW_FORMATS[name],) for name in ("uuid", "ipv4", "duration")},
    "uri": (RAW_FORMATS["uri"], _URI),
}
"""Regular expressions of formats of which masks enforce one, depending on the form of strings."""
