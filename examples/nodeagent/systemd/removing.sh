#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Before the removal of a package: the agent stops its pods and ends. dpkg passes "remove", and rpm
# passes 0 if no version stays.
set -e
case $1 in
remove | 0) ;;
*) exit 0 ;;
esac
[ -d /run/systemd/system ] || exit 0
for unit in keelson-nodeagent.service keelson-nodeagent-process.service; do
	if systemctl --quiet is-active $unit || systemctl --quiet is-enabled $unit; then
		# The pods of an agent that has failed or was stopped run on. A new agent adopts and stops them.
		systemctl start $unit || echo "$unit does not start: its pods, if any, run on" >&2
		if systemctl --quiet is-active $unit; then
			systemctl kill --kill-who=main --signal=USR1 $unit # ends the pods, too
		fi
		systemctl disable --now $unit
	fi
done
