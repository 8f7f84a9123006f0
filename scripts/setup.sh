#!/usr/bin/env bash
# Creates .venv with the dependencies of the project and its tests. Does nothing if they are unchanged.
# The backend is vLLM's CUDA build on machines with a GPU, and its CPU build elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."

if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
    backend=backend
else
    backend=backend-cpu
fi
stamp=.venv/.toolgate-setup
wanted=$(cat pyproject.toml {demo_model,verify}/pyproject.toml requirements/*.txt scripts/setup.sh <(echo "$backend") | sha256sum)
if [ -x .venv/bin/toolgate ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi

python=${PYTHON:-$(python3 scripts/choose_python.py)}
if [ "$backend" = backend-cpu ]; then
    scripts/install_libnuma.sh "$python"
fi

echo "Setting up .venv (extras: proxy, $backend, demo, verify, dev) …"
[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check 'uv==0.13.8'

options=(--python .venv/bin/python --overrides requirements/overrides.txt)
if [ "$backend" = backend-cpu ]; then
    # A local wheel in PIP_FIND_LINKS is preferred to PyTorch's CPU index.
    if compgen -G "${PIP_FIND_LINKS:-/nowhere}/torch-*.whl" >/dev/null; then
        export UV_FIND_LINKS="$PIP_FIND_LINKS"
    else
        options+=(--torch-backend cpu)
    fi
    # The constraints are for CPU machines. vLLM's CUDA build has other versions.
    options+=(--constraint requirements/constraints.txt --overrides requirements/cpu-overrides.txt)
fi
# Environments of earlier revisions have the distribution under its earlier name. Uninstalling it
# after the new one is installed would remove the new one's command.
.venv/bin/uv pip uninstall --quiet --python .venv/bin/python toolgate
# Bytecode is compiled now. From source, vLLM's import takes twice as long, and with
# PYTHONDONTWRITEBYTECODE it would do so in each process.
.venv/bin/uv pip install --quiet --compile-bytecode "${options[@]}" \
    --editable ".[proxy,$backend,demo,verify,dev]" --editable ./demo_model --editable ./verify
echo "$wanted" >"$stamp"
