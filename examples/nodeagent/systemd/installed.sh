#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# After the installation of a package, or of another version: a running agent is restarted and
# adopts its pods. An agent that did not run is not started.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl try-restart keelson-nodeagent.service keelson-nodeagent-process.service
