#!/usr/bin/env bash
# Installs libnuma, which vLLM's CPU build loads, if it is missing and packages may be installed here:
# by root, or by a user who needs no password for sudo.
#     scripts/install_libnuma.sh PYTHON
set -uo pipefail
python=$1

found() { "$python" -c 'import ctypes; ctypes.CDLL("libnuma.so.1")' 2>/dev/null; }

install_package() {
    if command -v apt-get >/dev/null; then
        "$@" apt-get install --yes --quiet libnuma1 || { "$@" apt-get update --quiet && "$@" apt-get install --yes --quiet libnuma1; }
    elif command -v dnf >/dev/null; then
        "$@" dnf install --assumeyes --quiet numactl-libs
    elif command -v yum >/dev/null; then
        "$@" yum install --assumeyes --quiet numactl-libs
    else
        false
    fi
}

[ "$(uname)" = Linux ] && ! found || exit 0
if [ "$(id -u)" = 0 ]; then
    echo "Installing libnuma, which vLLM's CPU build needs …"
    install_package env >/dev/null 2>&1
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    echo "Installing libnuma, which vLLM's CPU build needs …"
    install_package sudo -n >/dev/null 2>&1
fi
found && exit 0
echo "vLLM's CPU build needs libnuma.so.1: install libnuma1 (Debian, Ubuntu) or numactl-libs (Fedora)." >&2
exit 1
