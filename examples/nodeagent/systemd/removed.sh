#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# After the removal of a package. dpkg passes "purge" to remove the configuration and the state, too.
# rpm has no such removal.
set -e
if [ "$1" = purge ]; then
	if grep -q ' /var/lib/keelson/' /proc/self/mounts; then
		echo "/var/lib/keelson is left: volumes are mounted below" >&2
	else
		rm -rf /var/lib/keelson
	fi
	rm -rf /etc/keelson /run/keelson /etc/systemd/system/keelson-nodeagent.service.d /etc/systemd/system/keelson-nodeagent-process.service.d
fi
[ ! -d /run/systemd/system ] || systemctl daemon-reload
