#!/usr/bin/env bash
# Run the commands of action.yml and of the pre-commit hook in a clean folder, with a plan that fits
# its budget and one that does not. DPCALIB is what the action installs, by default the checkout.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH
mkdir "$work/user" "$work/temp" && cd "$work/user"
cp "$root/examples/plan.toml" fits.plan.toml
cp "$root/examples/over_budget.toml" over.plan.toml

expect() {
    local code=0
    "${@:2}" || code=$?
    [ "$code" = "$1" ] || { echo "expected exit code $1, found $code: ${*:2}" >&2; exit 1; }
}

# the last step of the action, as GitHub runs it
python3 - "$root/action.yml" >"$work/action.sh" <<'PYTHON'
import sys, textwrap
text = open(sys.argv[1], encoding="utf-8").read()
print("set -eo pipefail")
print(textwrap.dedent(text.split("run: |\n")[-1]))
PYTHON
action() {
    env -i PATH="$PATH" HOME="$HOME" RUNNER_TEMP="$work/temp" GITHUB_ACTION_PATH="$root" \
        INSTALL="${DPCALIB:-}" PLANS="$1" bash "$work/action.sh"
}
expect 0 action fits.plan.toml
expect 3 action "fits.plan.toml over.plan.toml"

# the hook, as pre-commit runs it: the entry, then the changed files that match
python3 - "$root/.pre-commit-hooks.yaml" >"$work/hook" <<'PYTHON'
import re, sys
text = open(sys.argv[1], encoding="utf-8").read()
entry, files = (re.search(rf"^  {key}: (.+)$", text, re.M)[1] for key in ("entry", "files"))
assert re.search(files, "fits.plan.toml") and not re.search(files, "pyproject.toml")
print(entry)
PYTHON
read -r -a entry <"$work/hook"
PATH="$work/temp/dpcalib/bin:$PATH"
expect 0 "${entry[@]}" fits.plan.toml
expect 3 "${entry[@]}" over.plan.toml fits.plan.toml
dpcalib schema | python3 -m json.tool >"$work/schema.json"
grep -q '"TreeAggregation"' "$work/schema.json"
echo "the action, the hook and the schema work"
