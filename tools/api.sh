#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints how the exported names of the module differ from those of the last
# release, which is the newest version tag below HEAD. Incompatible changes are
# allowed at a new minor only: they are printed, and do not fail.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
tag=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)
if [[ -z $tag ]]; then
	echo "No release to compare with: no version tag is below HEAD."
	echo "(In a shallow clone the tags are missing: git fetch --tags --unshallow.)"
	exit 0
fi
module=$("$go" list -m)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$go" -C tools build -o "$dir/apidiff" golang.org/x/exp/cmd/apidiff
mkdir "$dir/old"
git archive "$tag" | tar -x -C "$dir/old"
# Standard error has a line for each internal package.
quietly() { "$@" 2> >(grep -v '^Ignoring internal package' >&2); }
(cd "$dir/old" && quietly "$dir/apidiff" -m -w "$dir/old.export" "$module")
quietly "$dir/apidiff" -m -w "$dir/new.export" "$module"
echo "Exported names since $tag:"
"$dir/apidiff" -m "$dir/old.export" "$dir/new.export"
