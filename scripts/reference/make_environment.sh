#!/bin/sh
# Builds the environment in which the PyTorch reference of one family and this package run side by side.
# The two families' references need different releases of transformers and cannot share one.
# Usage: [PYTHON=python3] scripts/reference/make_environment.sh tts|omni [DIRECTORY]
# DIRECTORY is .venv-reference-tts or .venv-reference-omni by default.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
family=${1:-}
case $family in
tts | omni) ;;
*)
    echo "usage: $0 tts|omni [DIRECTORY]" >&2
    exit 2
    ;;
esac
venv=${2:-$root/.venv-reference-$family}

"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --upgrade pip
"$venv/bin/python" -m pip install --quiet -r "$here/requirements-$family.txt" --editable "$root"
if [ -f "$here/requirements-$family-no-deps.txt" ]; then
    "$venv/bin/python" -m pip install --quiet --no-deps -r "$here/requirements-$family-no-deps.txt"
fi
