# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the scripts that build a container runtime. cached NAME MODULE [DIR]
# calls the function build in the current folder, unless the programs are there
# already, and prints the folder they are in: DIR, or else one below
# $XDG_CACHE_HOME (~/.cache). build gets the version of MODULE and puts programs
# into $dir/new; compile is go build with the flags that all builds share, and
# NICE=19 makes it give way to others.
export GOWORK=off CGO_ENABLED=0
go=${GO:-go}

compile() { nice -n "${NICE:-0}" "$go" build -trimpath -buildvcs=false "$@" >&2; }

cached() {
	local version key
	version=$("$go" list -m -f '{{.Version}}' "$2")
	key=$version-$("$go" env GOVERSION)-$("$go" env GOARCH)
	dir=${3:-${XDG_CACHE_HOME:-$HOME/.cache}/keelson/$1-$key}
	mkdir -p "$dir"
	dir=$(cd "$dir" && pwd)
	exec 9>"$dir/.lock"
	if command -v flock >/dev/null; then flock 9; fi # two at once: the second finds it done
	# The stamp comes last, so that a build that was cut short is done again.
	if [[ $(cat "$dir/.built" 2>/dev/null) != "$key" ]]; then
		echo "building $1 $version into $dir" >&2
		mkdir -p "$dir/new"
		build "$version"
		mv "$dir"/new/* "$dir" # by rename: a running program is not disturbed
		rmdir "$dir/new"
		echo "$key" >"$dir/.built"
	fi
	echo "$dir"
}
