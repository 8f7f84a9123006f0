"""Errors inside the backend. The errors that clients receive are in `toolgate_core.errors`.

BackendError
├── GrammarRefused          no engine can enforce the schema; has the keyword's JSON Pointer
│   └── NotRepresentable    the form in which the model writes calls has no text for any value
├── BlobRejected            a compiled grammar from the gateway is damaged or of another key
├── IncompatibleServer      vLLM's version or flags would disable enforcement; stops the server
├── GrammarNotLoaded        a sequence needs a grammar that is not loaded in this process
├── GrammarNotCreated       the engine could not create the grammar of a request
└── NoTokenAllowed          a grammar allows no token at all: a bug of the engine or of Toolgate
"""

from __future__ import annotations


class BackendError(Exception):
    pass


class GrammarRefused(BackendError):
    def __init__(self, reason: str, pointer: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.pointer = pointer


class NotRepresentable(GrammarRefused):
    """Not even a looser schema can be enforced, so the tool is refused."""


class BlobRejected(BackendError):
    pass


class IncompatibleServer(BackendError):
    pass


class GrammarNotLoaded(BackendError):
    pass


class GrammarNotCreated(BackendError):
    pass


class NoTokenAllowed(BackendError):
    pass
