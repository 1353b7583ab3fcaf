#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds what make conformance needs beside containerd, unless it is there
# already, and prints the folder it is in: a control plane, kube-proxy, the
# kubelet, upstream's suite and the programs of its images, at the versions that
# kubernetes/go.mod names. What the images and the network need of Debian is
# installed with tools/deps.sh.
#
# The folder is $1, or else that of kubernetes.sh. A cold build takes some 25
# minutes on two cores; NICE=19 makes it give way to others.
set -euo pipefail
"$(dirname "$0")/../tools/deps.sh" bash curl hostname ip:iproute2 iptables dig:bind9-dnsutils nc.openbsd:netcat-openbsd >&2
programs="kube-controller-manager kube-scheduler kube-proxy kubelet agnhost nonewprivs ginkgo e2e.test e2e_node.test"
WITH="$programs ${WITH:-}" exec "$(dirname "$0")/kubernetes.sh" "$@"
