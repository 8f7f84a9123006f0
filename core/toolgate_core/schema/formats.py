"""Regular expressions of formats of strings that grammars enforce."""

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
