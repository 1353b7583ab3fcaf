#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# systemd.sh FOLDER: starts systemd in namespaces of its own, without a network. Its files are those of
# this machine; changes go to memory. FOLDER/cgroup has the path of its cgroup, to be removed afterwards.
set -e
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/systemd; do
	if [ -e $hierarchy/cgroup.procs ]; then
		mkdir $hierarchy/systemd-$$
		echo $$ >$hierarchy/systemd-$$/cgroup.procs
		echo $hierarchy/systemd-$$ >"$1/cgroup"
	fi
done
exec unshare --cgroup --mount --uts --ipc --net --pid --fork --kill-child sh -e -c '
mount --make-rprivate /
mount -t tmpfs tmpfs "$0"
cd "$0"
mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
cd root
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
if [ -e /sys/fs/cgroup/cgroup.procs ]; then
	mount -t cgroup2 cgroup2 sys/fs/cgroup
else
	mount -t tmpfs tmpfs sys/fs/cgroup
	mkdir sys/fs/cgroup/systemd
	mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
	mount -o remount,ro sys/fs/cgroup # without the hierarchies of controllers, which are the machine'"'"'s
fi
for folder in run tmp dev; do mount -t tmpfs tmpfs $folder; done
for device in null zero full random urandom tty; do
	touch dev/$device
	mount --bind /dev/$device dev/$device
done
ln -s /proc/self/fd dev/fd
rm -rf etc/systemd/system/*.wants # what this machine starts
ln -sf /dev/null etc/systemd/system/systemd-modules-load.service
mkdir old
pivot_root . old
umount -l old
container=test exec /lib/systemd/systemd --unit=basic.target --show-status=no
' "$1"
