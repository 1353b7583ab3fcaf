#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds kube-apiserver, etcd and kubectl at the versions that kubernetes/go.mod
# names, unless they are there already, and prints the folder they are in:
#
#   KEELSON_APISERVER_DIR=$(e2e/kubernetes.sh) go test ./internal/apiservertest
#
# The folder is $1, or else one below $XDG_CACHE_HOME (~/.cache). More programs
# can be named in WITH: the other programs of Kubernetes (kube-scheduler,
# kube-controller-manager, kube-proxy, kubeadm, kubelet), upstream's suite
# (e2e.test, and e2e_node.test for nodes) with its runner (ginkgo), and the programs of its images
# (agnhost, nonewprivs). A cold build takes some five minutes on two cores, and 25
# minutes with all programs; NICE=19 makes it give way to others.
set -euo pipefail
cd "$(dirname "$0")/kubernetes"
export GOWORK=off CGO_ENABLED=0

go=${GO:-go}
version=$("$go" list -m -f '{{.Version}}' k8s.io/kubernetes)
etcd=$("$go" list -m -f '{{.Version}}' go.etcd.io/etcd/server/v3)
key=$version-etcd-$etcd-$("$go" env GOVERSION)-$("$go" env GOARCH)
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/keelson/kubernetes-$key}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

# present says whether program $1 is there as wanted. Its stamp comes last, so
# that a build that was cut short is done again.
present() { [[ -x $dir/$1 && $(cat "$dir/.built-$1" 2>/dev/null) == "$key" ]]; }

missing=()
for program in etcd kube-apiserver kubectl ${WITH:-}; do
	present "$program" || missing+=("$program")
done
if ((${#missing[@]} == 0)); then
	echo "$dir"
	exit
fi

exec 9>"$dir/.lock"
if command -v flock >/dev/null; then flock 9; fi # two at once: the second finds it done
for program in "${missing[@]}"; do
	if present "$program"; then continue; fi
	# What /version says, and what kubectl compares with its own.
	at=k8s.io/component-base/version minor=${version#v1.}
	build=(build) of=$version flags="-s -w -X $at.gitVersion=$version -X $at.gitMajor=1 -X $at.gitMinor=${minor%%.*}"
	case $program in
	etcd) package=go.etcd.io/etcd/server/v3 of=$etcd flags='-s -w' ;;
	e2e.test) package=k8s.io/kubernetes/test/e2e build=(test -c -vet=off) ;;
	e2e_node.test) package=k8s.io/kubernetes/test/e2e_node build=(test -c -vet=off) ;;
	ginkgo) package=github.com/onsi/ginkgo/v2/ginkgo of='of that suite' flags='-s -w' ;;
	agnhost | nonewprivs) package=k8s.io/kubernetes/test/images/$program ;;
	*) package=k8s.io/kubernetes/cmd/$program ;;
	esac
	echo "building $program $of into $dir" >&2
	# Into place by rename: a running one is not disturbed.
	nice -n "${NICE:-0}" "$go" "${build[@]}" -trimpath -buildvcs=false -tags grpcnotrace -ldflags "$flags" -o "$dir/new/$program" "$package" >&2
	mv "$dir/new/$program" "$dir/$program"
	echo "$key" >"$dir/.built-$program"
done
rmdir "$dir/new"
echo "$dir"
