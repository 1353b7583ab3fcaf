#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every Fuzz target of the module for a short while.
#
#   tools/fuzz.sh [SECONDS [TOTAL]]
#
# SECONDS is the time for each target (5 by default); if all together would take
# longer than TOTAL (180 by default), each gets its share, at least one second.
# Building the instrumented packages is not counted.
set -euo pipefail
cd "$(dirname "$0")/.."

each=${1:-5} total=${2:-180}
go=${GO:-go}

packages=$("$go" list -f '{{.ImportPath}} {{.Dir}} {{join .TestGoFiles " "}} {{join .XTestGoFiles " "}}' ./...)

targets=()
while read -r pkg dir files; do
	for file in $files; do
		while read -r name; do
			targets+=("$pkg $name")
		done < <(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$dir/$file")
	done
done <<<"$packages"

if ((${#targets[@]} == 0)); then
	echo "no fuzz targets"
	exit 0
fi
if ((each * ${#targets[@]} > total)); then
	each=$((total / ${#targets[@]}))
	((each > 0)) || each=1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
for target in "${targets[@]}"; do
	read -r pkg name <<<"$target"
	printf '%-60s' "${pkg##*/keelson/} $name"
	if "$go" test -vet=off -run='^$' -fuzz="^$name\$" -fuzztime="${each}s" -timeout=10m "$pkg" >"$log" 2>&1; then
		inputs=$(sed -n 's/^fuzz: elapsed: .* execs: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
		echo "${inputs:-0} inputs"
	elif grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input written' "$log"; then
		# The go command reports the end of -fuzztime as a failure when it
		# comes at a bad moment; nothing was found.
		echo "end of time, nothing found"
	else
		echo "FAIL"
		cat "$log"
		exit 1
	fi
done
echo "${#targets[@]} fuzz targets, ${each} s each"
