"""Kernels in libraries for NVIDIA's GPUs.

Such a library has containers (`fatbinData` of nvcc's fatbinary.h), each with the same kernels for
several kinds of GPUs. A container begins with a header, and each of its entries has one: kind, its
own length, that of the code, and the architecture.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

MAGIC = struct.pack("<IHH", 0xBA55ED50, 1, 16)
"""Also the version and the length of a container's header, which ends with that of its entries."""
CONTAINER, LENGTH = 16, struct.Struct("<8xQ")
ENTRY = struct.Struct("<HHIQ12xI")
PTX, MACHINE_CODE = 1, 2
LONGEST_HEADER = 4096


def keep_kernels(
    library: bytearray, architecture: int, needed: Callable[[bytes], bool] = bool
) -> None:
    """Write zeros in place of the code of all entries that are not `needed`, or that a GPU of this
    architecture does not use: 90 is compute capability 9.0. It uses machine code of its own, else
    the newest PTX that is not newer."""
    at = library.find(MAGIC)
    while at >= 0:
        (size,) = LENGTH.unpack_from(library, at)
        end = at + CONTAINER + size
        if end > len(library):
            end = at + CONTAINER  # the number occurs by chance
        entries = [*_entries(library, at + CONTAINER, end)]
        wanted = (MACHINE_CODE, architecture)
        if not any(kind == wanted for kind, _, _ in entries):
            found = (each for (kind, each), _, _ in entries if kind == PTX and each <= architecture)
            wanted = (PTX, max(found, default=0))
        for kind, begin, length in entries:
            code = bytes(library[begin : begin + length])
            if kind != wanted or not needed(code):
                library[begin : begin + length] = bytes(length)
        at = library.find(MAGIC, end)


def _entries(library: bytearray, at: int, end: int) -> Iterator[tuple[tuple[int, int], int, int]]:
    """Kind and architecture, and the place and the length of the code."""
    while at + ENTRY.size <= end:
        kind, _, header, length, architecture = ENTRY.unpack_from(library, at)
        if not ENTRY.size <= header <= LONGEST_HEADER:
            return
        yield (kind, architecture), at + header, length
        at += header + length
