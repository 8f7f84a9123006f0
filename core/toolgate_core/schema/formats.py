"""Formats as patterns: what a mask holds of `format`, and what is left to the check.

A pattern here admits nothing that the check (jsonschema-rs, formats asserted) refuses; the tests
prove it. What it leaves out is named beside it.
"""

from __future__ import annotations

_YEAR = r"[0-9]{4}"
_LEAP = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    rf"|{_LEAP}-02-29)"
)
# Without leap seconds, which are right at one moment of a day only.
_TIME = (
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
    r"(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_ATOM = r"[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"

PATTERNS: dict[str, tuple[str, ...]] = {
    "date": (f"^{_DATE}$",),
    "date-time": (f"^{_DATE}[tT]{_TIME}$",),
    "time": (f"^{_TIME}$",),
    # Without quoted local parts and address literals, and without two hyphens in a row, which only
    # punycode has use for (RFC 5890 §2.3.2.1).
    "email": (rf"^{_ATOM}(?:\.{_ATOM})*@{_DOMAIN}$", r"^[^@]{1,64}@(?:-?[^-])+$"),
    "hostname": (f"^{_DOMAIN}$", r"^(?:-?[^-])+$"),
    "json-pointer": (r"^(?:/(?:[^~/]|~[01])*)*$",),
    "relative-json-pointer": (r"^(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)$",),
}
LENGTHS = {"email": 254, "hostname": 253}
"""A string that matches all patterns, and is no longer than the length, is of the format."""

BUILT_IN = frozenset({"duration", "ipv4", "ipv6", "uri", "uuid"})
"""llguidance's own patterns for these admit nothing that the check refuses."""

CHECKED = frozenset(
    {
        "idn-email",
        "idn-hostname",
        "iri",
        "iri-reference",
        "regex",
        "uri-reference",
        "uri-template",
    }
)
"""Known to the check and to no mask. A format that neither knows is an annotation."""
