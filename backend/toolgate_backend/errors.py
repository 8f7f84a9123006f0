"""Errors inside the backend. What a client can meet is in `toolgate_core.errors`.

BackendError
├── GrammarRefused      no engine can hold this schema; carries the keyword's JSON Pointer
├── BlobRejected        a compiled grammar from elsewhere that is not what it says it is
├── QuarantineDown      the quarantine died or did not answer, through no fault of a schema
├── AdapterMisfit       a server that would drop the masks, or lacks what we need: it does not start
├── GrammarMissing      a sequence names a grammar that this process does not hold
├── TooSlow             a sequence whose masks hold up the others' steps
└── DeadEnd             a grammar allows no token at all: a bug of the grammar or of ours
"""

from __future__ import annotations


class BackendError(Exception):
    pass


class GrammarRefused(BackendError):
    def __init__(self, reason: str, pointer: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.pointer = pointer


class BlobRejected(BackendError):
    pass


class QuarantineDown(BackendError):
    pass


class AdapterMisfit(BackendError):
    pass


class GrammarMissing(BackendError):
    pass


class TooSlow(BackendError):
    pass


class DeadEnd(BackendError):
    pass
