#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Looks for known vulnerabilities in code that the module calls. The database is
# https://vuln.go.dev; GOVULNDB names another, as a URL or as file:///folder.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$go" -C tools build -o "$dir/govulncheck" golang.org/x/vuln/cmd/govulncheck
status=0
"$dir/govulncheck" -db "${GOVULNDB:-https://vuln.go.dev}" -tags "${TAGS:-}" ./... >"$dir/out" 2>"$dir/err" || status=$?
cat "$dir/out"
cat "$dir/err" >&2
if grep -qi 'fetching vulnerabilities' "$dir/err"; then
	echo "Nothing was checked: the vulnerability database ${GOVULNDB:-https://vuln.go.dev} does not answer." >&2
	echo "Run this where it can be reached, or name a copy: GOVULNDB=file:///folder make vuln" >&2
fi
exit "$status"
