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
export GOWORK=off CGO_ENABLED=0

go=${GO:-go}
module=github.com/cri-o/cri-o
version=$("$go" list -m -f '{{.Version}}' "$module")
key=$version-$("$go" env GOVERSION)-$("$go" env GOARCH)
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/keelson/crio-$key}

# The stamp comes last, so that a build that was cut short is done again.
if [[ $(cat "$dir/.built" 2>/dev/null) == "$key" ]]; then
	echo "$dir"
	exit
fi

mkdir -p "$dir/new"
dir=$(cd "$dir" && pwd)
exec 9>"$dir/.lock"
if command -v flock >/dev/null; then flock 9; fi # two at once: the second finds it done
if [[ $(cat "$dir/.built" 2>/dev/null) != "$key" ]]; then
	echo "building CRI-O $version into $dir" >&2
	# What needs C libraries is left out.
	tags=containers_image_openpgp,containers_image_ostree_stub,exclude_graphdriver_btrfs,btrfs_noversion
	nice -n "${NICE:-0}" "$go" build -trimpath -buildvcs=false -tags "$tags" -ldflags '-s -w' -o "$dir/new/crio" "$module/cmd/crio" >&2
	source=$("$go" list -m -f '{{.Dir}}' "$module")/pinns/src
	"${CC:-cc}" -std=c99 -Os -static -o "$dir/new/pinns" "$source"/*.c >&2
	# Into place by rename: a running one is not disturbed.
	mv "$dir"/new/* "$dir"
	rmdir "$dir/new"
	echo "$key" >"$dir/.built"
fi
echo "$dir"
