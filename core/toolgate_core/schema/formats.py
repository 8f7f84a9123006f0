"""Formats: which ones masks enforce, as patterns, and which ones are left to validation.

A pattern accepts no string that validation (jsonschema-rs with format assertion) refuses; tests
check this. Comments list the valid strings that a pattern excludes.
"""

from __future__ import annotations

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
