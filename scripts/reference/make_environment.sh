#!/bin/sh
# Builds the environment in which the PyTorch reference and this package run side by side.
# Usage: [PYTHON=python3] scripts/reference/make_environment.sh [DIRECTORY]   (default: .venv-reference)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=${1:-$root/.venv-reference}

"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --upgrade pip
"$venv/bin/python" -m pip install --quiet -r "$here/requirements.txt" --editable "$root"
"$venv/bin/python" -m pip install --quiet --no-deps qwen-tts==0.1.1
