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
function people(v, unit,   ns) {
	if (unit == "ns/op" || unit ~ /-ns$/) ns = v
	else if (unit ~ /-µs$/) ns = v * 1e3
	else return sprintf("%.6g %s", v, unit)
	if (ns < 1e3) return sprintf("%.3g ns", ns)
	if (ns < 1e6) return sprintf("%.3g us", ns / 1e3)
	if (ns < 1e9) return sprintf("%.3g ms", ns / 1e6)
	return sprintf("%.3g s", ns / 1e9)
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
# reference prints a reference: words as they are, a benchmark by what it measured.
function reference(cell, ours, unit,   key, name, rest, end, v) {
	if (cell !~ /^`/) return cell
	cell = substr(cell, 2)
	end = index(cell, "`")
	name = substr(cell, 1, end - 1)
	rest = trim(substr(cell, end + 1))
	if (rest != "") unit = rest
	key = section " " name " " unit
	if (!(key in values)) return "-"
	v = median(key)
	if (v == 0) return people(v, unit)
	return sprintf("%s (%.2f x), %s", people(v, unit), ours / v, rest != "" ? rest : name)
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
file == 2 && /^## / { section = trim(substr($0, 4)); shown = 0 }
file == 2 && /^\|/ {
	split($0, c, "|")
	unit = trim(c[4])
	key = section " " trim(c[3]) " " unit
	if (!(key in values)) next
	if (!printed++) print "\nBENCHMARKS.md with the numbers of this run (x: keelson / reference)"
	if (!shown++) printf "\n%-50s %16s  %-10s %s\n", section, "keelson", "goal", "reference"
	gsub(/≤/, "<=", c[5]); gsub(/µ/, "u", c[5]); gsub(/…/, "...", c[2]); gsub(/–/, "-", c[5]); gsub(/–/, "-", c[6])
	ours = median(key)
	sub(/^ +/, "", c[6]); sub(/ +$/, "", c[6])
	printf "%-50s %16s  %-10s %s\n", "  " trim(c[2]), people(ours, unit), trim(c[5]), reference(c[6], ours, unit)
}
END { if (!printed) print "\nno benchmark of this run has a row in BENCHMARKS.md" }
' "$out" BENCHMARKS.md
