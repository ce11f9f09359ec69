#!/usr/bin/env bash
# Train with Opacus and our accountant, in an environment of its own. A CPU build of torch is enough.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3.11 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 opacus==1.6.0 pytest "$root"
cd "$work"
PYTHONPATH="$root/tests/interop" "$work/venv/bin/python" -m pytest -q -s -p no:cacheprovider --noconftest -c /dev/null \
    --rootdir "$work" "$root/tests/interop/check_opacus.py"
