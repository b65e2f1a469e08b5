#!/usr/bin/env bash
# A machine with a systemd of its own, for the test of the service. It has this machine's files, below
# a layer that is thrown away, this machine's network, and processes of its own.
#
#   systemd_machine.sh FOLDER PREFIX CONFIG
#
# FOLDER is empty and will hold the machine's root. The installation at PREFIX is seen as /opt/pie,
# and its service runs with the file CONFIG. systemd writes to this terminal. Run it by
# `unshare --mount --pid --fork --ipc --uts --cgroup`, in a cgroup of its own below `systemd`.
set -euo pipefail
folder=$1 prefix=$2 config=$3

mount --make-rprivate /
mount -t tmpfs tmpfs "$folder"
mkdir "$folder"/{upper,work,root}
root=$folder/root
# The installation lies below a folder that other users cannot enter.
mkdir "$folder/installed"
mount --bind "$prefix" "$folder/installed"
cp "$config" "$folder/config.toml"
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$root"

mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
mkdir "$root/sys/fs/cgroup/systemd"
mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/dev"
mkdir "$root"/dev/{pts,shm}
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mount -t devpts devpts "$root/dev/pts" -o newinstance,ptmxmode=0666
ln -s pts/ptmx "$root/dev/ptmx"
touch "$root/dev/console"
mount --bind "$(tty)" "$root/dev/console"

# Only the units after which the service is ordered exist, so systemd starts nothing else.
for wants in "$root"/lib/systemd/system/*.wants "$root"/etc/systemd/system; do
  mount -t tmpfs tmpfs "$wants"
done
ln -s /dev/null "$root/etc/systemd/system/systemd-remount-fs.service"
printf '[Manager]\nDefaultStandardOutput=tty\n' >"$root/etc/systemd/system.conf"

# These are the steps of the guide "Installing".
mkdir -p "$root/opt/pie" "$root/etc/pie"
mount --bind "$folder/installed" "$root/opt/pie"
echo 'pie:x:997:997::/var/lib/pie:/usr/sbin/nologin' >>"$root/etc/passwd"
echo 'pie:x:997:' >>"$root/etc/group"
install -m 640 -g 997 "$folder/config.toml" "$root/etc/pie/config.toml"
install -d -m 700 -o 997 -g 997 "$root/var/lib/pie" "$root/var/cache/pie"
sed 's|^ExecStart=[^ ]*/bin/pie |ExecStart=/opt/pie/bin/pie |' \
  "$root/opt/pie/lib/systemd/system/pie.service" >"$root/etc/systemd/system/pie.service"
kernel='systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller=1'
exec env -i container=other SYSTEMD_PROC_CMDLINE="$kernel" PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  chroot "$root" /lib/systemd/systemd --system --unit=pie.service --log-target=console --show-status=yes
