#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds metrics-server, CoreDNS, kwok or Kubernetes' sample device plug-in ($1) at
# the version that the go.mod of its folder here names, unless it is there already,
# and prints the path of the program:
#
#   KEELSON_METRICS_SERVER=$(e2e/program.sh metrics-server) \
#     KEELSON_APISERVER_DIR=$(e2e/kubernetes.sh) go test -run TestKubectlTop ./examples/nodeagent
#
# The program is in a folder below $XDG_CACHE_HOME (~/.cache). NICE=19 makes a
# build give way to others.
set -euo pipefail
case ${1:-} in
metrics-server) folder=metricsserver module=sigs.k8s.io/metrics-server package=$module/cmd/metrics-server ;;
coredns) folder=coredns module=github.com/coredns/coredns package=. ;;
kwok) folder=kwok module=sigs.k8s.io/kwok package=$module/cmd/kwok ;;
sample-device-plugin) folder=kubernetes module=k8s.io/kubernetes package=$module/test/images/sample-device-plugin ;;
*) echo "usage: $0 metrics-server|coredns|kwok|sample-device-plugin" >&2 && exit 2 ;;
esac
cd "$(dirname "$0")/$folder"
export GOWORK=off CGO_ENABLED=0

go=${GO:-go}
version=$("$go" list -m -f '{{.Version}}' "$module")
key=$1-$version-$("$go" env GOVERSION)-$("$go" env GOARCH)
program=${XDG_CACHE_HOME:-$HOME/.cache}/keelson/$key/$1
if [[ ! -x $program ]]; then
	echo "building $1 $version" >&2
	mkdir -p "$(dirname "$program")"
	# Into place by rename: a running one is not disturbed.
	nice -n "${NICE:-0}" "$go" build -trimpath -buildvcs=false -tags grpcnotrace -ldflags '-s -w' -o "$program.new" "$package" >&2
	mv "$program.new" "$program"
fi
echo "$program"
