#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds containerd, its runc shim and ctr at the version this module's go.mod
# names, unless they are there already, and prints the folder they are in:
#
#   KEELSON_CONTAINERD_DIR=$(e2e/containerd.sh) go test ./internal/containerdtest
#
# The folder is $1, or else one below $XDG_CACHE_HOME (~/.cache). A cold build
# takes some three minutes on two cores; NICE=19 makes it give way to others.
set -euo pipefail
cd "$(dirname "$0")"
export GOWORK=off CGO_ENABLED=0

go=${GO:-go}
module=github.com/containerd/containerd/v2
version=$("$go" list -m -f '{{.Version}}' "$module")
key=$version-$("$go" env GOVERSION)-$("$go" env GOARCH)
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/keelson/containerd-$key}

# The stamp comes last, so that a build that was cut short is done again.
if [[ $(cat "$dir/.built" 2>/dev/null) == "$key" ]]; then
	echo "$dir"
	exit
fi

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
exec 9>"$dir/.lock"
if command -v flock >/dev/null; then flock 9; fi # two at once: the second finds it done
if [[ $(cat "$dir/.built" 2>/dev/null) != "$key" ]]; then
	echo "building containerd $version into $dir" >&2
	# What the tests cannot use is left out: it would only cost time.
	tags=osusergo,netgo,static_build,urfave_cli_no_docs,no_btrfs,no_zfs,no_devmapper
	ldflags="-s -w -X $module/version.Version=$version"
	build() { nice -n "${NICE:-0}" "$go" build -trimpath -buildvcs=false -ldflags "$ldflags" "$@" >&2; }
	# Into place by rename: a running one is not disturbed.
	build -tags "$tags" -o "$dir/new/" "$module/cmd/containerd" "$module/cmd/ctr"
	build -tags "$tags,no_grpc" -o "$dir/new/" "$module/cmd/containerd-shim-runc-v2"
	mv "$dir"/new/* "$dir"
	rmdir "$dir/new"
	echo "$key" >"$dir/.built"
fi
echo "$dir"
