#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds what make conformance needs beside containerd, unless it is there
# already, and prints the folder it is in: a control plane, the kubelet,
# upstream's suite and the programs of its images, at the versions that
# kubernetes/go.mod names.
#
# The folder is $1, or else that of kubernetes.sh. A cold build takes some 25
# minutes on two cores; NICE=19 makes it give way to others.
set -euo pipefail
programs="kube-controller-manager kube-scheduler kubelet agnhost nonewprivs ginkgo e2e.test"
WITH="$programs ${WITH:-}" exec "$(dirname "$0")/kubernetes.sh" "$@"
