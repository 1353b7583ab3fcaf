#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# After the installation of a package, or of another version: an agent that runs is
# started again, and takes its pods over. No agent is started that did not run.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl try-restart keelson-nodeagent.service keelson-nodeagent-process.service
