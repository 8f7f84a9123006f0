"""What earlier releases had, and what to use instead.

Whoever still sends, sets or calls one of these gets one answer that names it: a parameter is
refused, a setting is reported at start, and a command ends with status 2.
"""

from __future__ import annotations

PARAMETERS = {
    "toolgate.receipt": "Receipts were removed. `toolgate verify` tests what an endpoint enforces.",
}
"""By place in the body."""

SETTINGS = {
    "PAGE": "The page needs no key and has no data, so the gateway always serves it.",
    "RECEIPT_KEY": "Receipts were removed, so no key is needed.",
    "TRACES": "Set OpenTelemetry's own OTEL_TRACES_EXPORTER to `otlp` or `console`.",
}
"""By name, without the prefix TOOLGATE_."""

COMMANDS = {
    "chat": "The page of the gateway has a playground; `toolgate launch` starts agents.",
    "audit": "Receipts were removed. `toolgate verify URL` tests what an endpoint enforces.",
}
