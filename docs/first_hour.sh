#!/usr/bin/env bash
# The first hour of a new user: in a copy of the checkout and a new environment, run what README.md
# and the tutorials print, nothing else, and print the seconds of each step.
# usage: bash docs/first_hour.sh FOLDER [--tests]   (--tests: also README's test command)
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:?usage: bash docs/first_hour.sh FOLDER [--tests]}/dpcalib
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
git -C "$root" ls-files -z --cached --others --exclude-standard |
    (cd "$root" && tar --null --ignore-failed-read -cf - -T - 2>/dev/null) | tar -xf - -C "$folder"
cd "$folder"
unset PYTHONPATH VIRTUAL_ENV

step() {
    local start=$SECONDS
    echo "== $1"
    "${@:2}" || { echo "failed: $1" >&2; exit 1; }
    echo "== $((SECONDS - start)) s: $1"
}

# Print the install command of README.md that contains a word.
readme_command() { grep -m 1 "^python3 -m venv .*$1" README.md; }

# Run the Python cells of a tutorial in one process, without its notebook magics.
tutorial() {
    sed -n '/^```{code-cell}/,/^```$/{/^```/d;/^:/d;/^%/d;p}' "docs/tutorials/$1.md" >"$1.py"
    .venv/bin/python "$1.py"
}

step "README: the first number" bash -c "$(readme_command 'dpcalib sigma')"
# one command of pip for all extras that the tutorials name
extras=$(grep -ho "pip install '\.\[[a-z,]*\]'" docs/tutorials/*.md | grep -o '\[.*\]' | tr -d '[]' |
    tr ',' '\n' | sort -u | paste -sd,)
step "the extras of the tutorials: $extras" .venv/bin/pip install --quiet ".[$extras]"
for path in docs/tutorials/*.md; do
    name=$(basename "$path" .md)
    step "tutorial: $name" tutorial "$name"
done
if [ "${2:-}" = --tests ]; then
    rm -r .venv
    step "README: the tests" bash -c "$(readme_command pytest)"
fi
