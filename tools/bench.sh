#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs benchmarks and prints them beside the goals and references of
# BENCHMARKS.md.
#
#   tools/bench.sh [PATTERN [COUNT [OUT]]]
#
# OUT gets what go test prints, for benchstat. With a COUNT above 1 the table
# shows medians.
set -euo pipefail
cd "$(dirname "$0")/.."

pattern=${1:-.} count=${2:-1} out=${3:-bench.out}
go=${GO:-go}

cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1 || true)
memory=$(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo 2>/dev/null || true)
echo "machine: ${cpu:-$(uname -m)}, $(getconf _NPROCESSORS_ONLN) cpus, ${memory:-? GiB}, $(uname -s) $(uname -r | cut -d. -f1,2), $("$go" env GOVERSION)," \
	"load $(uptime | sed 's/.*load average[s]*: *\([0-9.]*\).*/\1/'), $(date -u +%F)" | tee "$out"

"$go" test -vet=off -run='^$' -bench="$pattern" -benchmem -count="$count" -timeout=30m ./... |
	grep -v -e '^PASS$' -e 'no test files' | tee -a "$out"

awk -v cpus="$(getconf _NPROCESSORS_ONLN)" '
function trim(s) { gsub(/^[ `]+|[ `]+$/, "", s); return s }
function people(v, unit) {
	if (unit != "ns/op") return v + 0 " " unit
	if (v < 1e3) return v + 0 " ns"
	if (v < 1e6) return sprintf("%.3g µs", v / 1e3)
	if (v < 1e9) return sprintf("%.3g ms", v / 1e6)
	return sprintf("%.3g s", v / 1e9)
}
function median(key,   n, i, j, v, x) {
	n = split(values[key], v, " ")
	for (i = 2; i <= n; i++) {
		x = v[i] + 0
		for (j = i - 1; j > 0 && v[j] + 0 > x; j--) v[j + 1] = v[j]
		v[j + 1] = x
	}
	return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}
FNR == 1 { file++ }
file == 1 && /^pkg: / { pkg = $2; sub(/^.*\/keelson\//, "", pkg) }
file == 1 && /^Benchmark/ {
	sub("-" cpus "$", "", $1)
	for (i = 3; i < NF; i += 2) {
		key = pkg " " $1 " " $(i + 1)
		values[key] = values[key] " " $i
	}
}
file == 2 && /^## / { section = trim(substr($0, 4)) }
file == 2 && /^\|/ {
	split($0, c, "|")
	key = section " " trim(c[3]) " " trim(c[4])
	if (!(key in values)) next
	if (!printed++) printf "\n%-58s %14s   %-14s %s\n", "", "keelson", "goal", "reference"
	printf "%-58s %14s   %-14s %s\n", section ": " trim(c[2]), people(median(key), trim(c[4])), trim(c[6]), trim(c[7])
}
END { if (!printed) print "\nno benchmark of this run has a row in BENCHMARKS.md" }
' "$out" BENCHMARKS.md
