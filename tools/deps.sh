#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what the tests need beside Go, where it is missing: a C compiler for
# the race detector, and, on Linux as root, containerd with what it needs and the
# programs that the arguments name (a name, or name:package). Only as root on a system with apt-get; elsewhere it says what is missing, and the
# tests that need it are skipped.
set -euo pipefail

missing=()
printf '#include <stdlib.h>\n' | "$(go env CC)" -E - >/dev/null 2>&1 || missing+=(gcc libc6-dev)
if [[ $(uname -s) == Linux ]] && ((EUID == 0)); then
	PATH=$PATH:/usr/sbin:/sbin
	command -v containerd >/dev/null || missing+=(containerd)
	command -v runc >/dev/null || missing+=(runc)
	[[ -x /usr/lib/cni/bridge || -x /opt/cni/bin/bridge ]] || missing+=(containernetworking-plugins)
	command -v busybox >/dev/null || missing+=(busybox-static)
	command -v pasta >/dev/null || missing+=(passt)
	command -v newuidmap >/dev/null || missing+=(uidmap)
	for program; do command -v "${program%:*}" >/dev/null || missing+=("${program#*:}"); done
fi
if ((${#missing[@]} == 0)); then
	exit 0
fi
if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
	echo "missing, and not installed by this script here: ${missing[*]}" >&2
	exit 0
fi
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}"
