#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds CRI-O and its helper pinns at the version that crio/go.mod names, unless
# they are there already, and prints the folder they are in:
#
#   KEELSON_CRIO_DIR=$(e2e/crio.sh) go test -run CRIO ./runtime/cri
#
# The folder is $1, or else one below $XDG_CACHE_HOME (~/.cache). A cold build
# takes some three minutes on two cores; NICE=19 makes it give way to others.
# pinns needs a C compiler and a static C library. To run, CRI-O needs conmon and
# runc (Debian: apt-get install conmon runc); crun of Debian 12 is too old for it.
set -euo pipefail
cd "$(dirname "$0")/crio"
source ../cached.sh

module=github.com/cri-o/cri-o

build() {
	# What needs C libraries is left out.
	local tags=containers_image_openpgp,containers_image_ostree_stub,exclude_graphdriver_btrfs,btrfs_noversion
	compile -tags "$tags" -ldflags '-s -w' -o "$dir/new/crio" "$module/cmd/crio"
	local source
	source=$("$go" list -m -f '{{.Dir}}' "$module")/pinns/src
	"${CC:-cc}" -std=c99 -Os -static -o "$dir/new/pinns" "$source"/*.c >&2
}

cached crio "$module" "$@"
