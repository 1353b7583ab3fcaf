#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds metrics-server at the version that metricsserver/go.mod names, unless
# it is there already, and prints its path:
#
#   KEELSON_METRICS_SERVER=$(e2e/metrics-server.sh) KEELSON_APISERVER_DIR=$(e2e/kubernetes.sh) \
#     go test -run TestKubectlTop ./examples/nodeagent
#
# The program is in the folder $1, or else in one below $XDG_CACHE_HOME
# (~/.cache). NICE=19 makes a build give way to others.
set -euo pipefail
cd "$(dirname "$0")/metricsserver"
export GOWORK=off CGO_ENABLED=0

go=${GO:-go}
version=$("$go" list -m -f '{{.Version}}' sigs.k8s.io/metrics-server)
key=$version-$("$go" env GOVERSION)-$("$go" env GOARCH)
program=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/keelson/metrics-server-$key}/metrics-server
if [[ ! -x $program ]]; then
	echo "building metrics-server $version" >&2
	mkdir -p "$(dirname "$program")"
	# Into place by rename: a running one is not disturbed.
	nice -n "${NICE:-0}" "$go" build -trimpath -buildvcs=false -tags grpcnotrace -ldflags '-s -w' -o "$program.new" sigs.k8s.io/metrics-server/cmd/metrics-server >&2
	mv "$program.new" "$program"
fi
echo "$program"
