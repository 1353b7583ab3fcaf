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
source ./cached.sh

module=github.com/containerd/containerd/v2

build() {
	# What the tests cannot use is left out: it would only cost time.
	local tags=osusergo,netgo,static_build,urfave_cli_no_docs,no_btrfs,no_zfs,no_devmapper
	local flags="-s -w -X $module/version.Version=$1"
	compile -ldflags "$flags" -tags "$tags" -o "$dir/new/" "$module/cmd/containerd" "$module/cmd/ctr"
	compile -ldflags "$flags" -tags "$tags,no_grpc" -o "$dir/new/" "$module/cmd/containerd-shim-runc-v2"
}

cached containerd "$module" "$@"
