"""Every error that a client of the gateway can receive.

On the wire an error is OpenAI's error object (platform.openai.com/docs/guides/error-codes):
`{"error": {"message", "type", "param", "code"}}`, plus the extra fields of its class.

docs/api/errors.md is generated from these classes (`make docs`). The docstring of a class has two
or three paragraphs: when the error occurs, what to do, and the extra fields.
"""

from __future__ import annotations

from .access import *
from .base import *
from .requests import *
from .services import *
