"""The limits of keys in docs/reference/settings.md, from the gateway's table of limits."""

from __future__ import annotations

from toolgate_proxy.keys.limit_kinds import KINDS, LimitKind

HEAD = """\

## Limits of a key

A virtual key can have any of these limits, in the order in which they are checked. `field` is the
name in the key file, `option` that of `toolgate keys create` and `update` (where 0 removes the
limit), and `label` that of the metric `toolgate_limited_total`.

"""
TABLE = """\
| field | option | limit | window | headers | error type, code | label |
|---|---|---|---|---|---|---|
"""
WINDOWS = {
    "sliding": "any period of {seconds} s",
    "fixed": "midnight to midnight, UTC",
    "in_flight": "until the response has ended",
}
TAIL = """
A refused request gets a 429 and counts against no limit. `Retry-After` is absent if the request
exceeds a limit by itself. Tokens are [reserved and settled](decisions.md#14-limits). A client that
leaves is charged for what was read and generated until then.
"""


def section() -> str:
    return HEAD + TABLE + "".join(_row(kind) for kind in KINDS) + TAIL


def _row(kind: LimitKind) -> str:
    window = WINDOWS[kind.window.type].format(seconds=kind.window.milliseconds // 1000)
    fields = ["limit", "remaining", *(["reset"] if kind.window.type == "sliding" else [])]
    headers = f"`x-ratelimit-{{{','.join(fields)}}}-{kind.header}`"
    error = f"`{kind.unit.error_type}`, `{kind.error.code}`"
    names = [f"`{kind.name}`", f"`{kind.flag}`"]
    cells = [*names, kind.title, window, headers, error, f"`{kind.label}`"]
    return f"| {' | '.join(cells)} |\n"
