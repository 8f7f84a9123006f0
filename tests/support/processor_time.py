"""The processor time of another process."""

from __future__ import annotations

from pathlib import Path


def processor_time(pid: int) -> int:
    """Return it in hundredths of a second; 0 for a process that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(fields[11]) + int(fields[12])
