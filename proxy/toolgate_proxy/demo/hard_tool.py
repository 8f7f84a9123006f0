"""The tool and the requests of the demo's comparison.

The tool has the keywords with which models fail most often: an enumeration, a pattern, a date-time,
an array of an exact length, and an object that may be null.
"""

from __future__ import annotations

from typing import Any

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "open_ticket",
        "description": "Open a ticket",
        "parameters": {
            "type": "object",
            "properties": {
                "code": {"type": "string", "pattern": "^[A-Z]{2,4}-[0-9]{3,5}$"},
                "priority": {"type": "string", "enum": ["low", "medium", "high"]},
                "due": {"type": "string", "format": "date-time"},
                "labels": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1, "maxLength": 12},
                    "minItems": 2,
                    "maxItems": 2,
                },
                "contact": {
                    "anyOf": [
                        {
                            "type": "object",
                            "properties": {
                                "name": {"type": "string", "maxLength": 40},
                                "channel": {"type": "string", "enum": ["email", "sms", "push"]},
                            },
                            "required": ["name", "channel"],
                            "additionalProperties": False,
                        },
                        {"type": "null"},
                    ]
                },
            },
            "required": ["code"],
            "additionalProperties": False,
        },
    },
}

SUMMARY = (
    "open_ticket: code (a pattern), priority (an enum), due (a date-time), labels (exactly 2), "
    "contact (an object or null)"
)

REQUESTS = (
    "Open ticket WEB-2143 with high priority",
    "Open ticket WEB-2143 with labels auth and urgent",
    "Open ticket OPS-318, due tomorrow",
    "Open ticket OPS-318 with low priority, due 2026-03-02T09:00:00Z",
    "Open ticket WEB-2143 with contact Anna by email",
)
SAMPLES = 10
"""Number of samples of each request."""
