#!/usr/bin/env bash
# Runs pyright in strict mode over the Python SDK and the Python client, with the version that setup
# installed. Their pyproject.toml files say what is checked.
set -euo pipefail

cd "$(dirname "$0")/.."
python=build/venv/bin/python
"$python" -c 'import pyright' 2>/dev/null ||
  { echo "pyright is missing: run scripts/setup.sh check" >&2; exit 1; }
"$python" sdk/python/scripts/generate_bindings.py
for package in sdk/python client/python; do
  echo "pyright: $package"
  PYRIGHT_PYTHON_IGNORE_WARNINGS=1 "$python" -m pyright --pythonpath "$python" -p "$package"
done
