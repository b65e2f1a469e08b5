#!/usr/bin/env bash
# Tries this checkout on a bare machine: an empty Debian root with nothing in it but make, git and
# certificates. What a newcomer would have to install by hand shows up here as a failure.
#
#   scripts/try_in_empty_root.sh                      Debian 12 and Debian 13: make demo, make test
#   scripts/try_in_empty_root.sh trixie demo          one release, one target
#   scripts/try_in_empty_root.sh bookworm demo test   one release, several targets in turn
#   scripts/try_in_empty_root.sh bookworm dist        what `make dist` packed, without the tree
#   scripts/try_in_empty_root.sh --keep trixie demo   goes on in the root of the last call
#
# The release is bookworm (Debian 12) or trixie (Debian 13). It needs root, debootstrap and about
# 15 GB of disk in $PIE_ROOTS (default /var/tmp/pie-roots) for each release. Without --keep, each
# call makes a new root. Its copy of the tree holds what git would commit. The mirror, its settings
# and the certificates are those of this machine's own apt. The log is $PIE_ROOTS/RELEASE.log.
set -euo pipefail

tree=$(cd "$(dirname "$0")/.." && pwd)
roots=${PIE_ROOTS:-/var/tmp/pie-roots}
home=root/pie   # where the tree lies inside the root

usage() { sed -n '5,9s/^# *//p' "$0" >&2; exit 2; }

releases=() targets=() keep=
for word in "$@"; do
  case $word in
    bookworm | trixie) releases+=("$word") ;;
    demo | test | dist) targets+=("$word") ;;
    --keep) keep=yes ;;
    *) usage ;;
  esac
done
[ ${#releases[@]} -gt 0 ] || releases=(bookworm trixie)
[ ${#targets[@]} -gt 0 ] || targets=(demo test)
[ "$(id -u)" = 0 ] || { echo "debootstrap and chroot need root" >&2; exit 1; }
command -v debootstrap >/dev/null ||
  { echo "debootstrap is missing. Run: apt-get install -y debootstrap" >&2; exit 1; }

# The mirror from which this machine takes its own Debian packages.
mirror() {
  apt-get indextargets --format '$(SITE)' 'Label: Debian' 'Created-By: Packages' | head -n 1
}

# The settings of apt that say how to reach a mirror.
apt_settings() {
  apt-config dump --format '%f "%v";%n' |
    grep -E '^Acquire::(https?::|Check-Valid-Until|ForceIPv4|Retries)' || true
}

leave() {  # leave ROOT: unmounts what enter mounted
  local place
  for place in dev/pts dev/shm dev proc; do
    ! mountpoint -q "$1/$place" || umount "$1/$place"
  done
}

enter() {  # enter ROOT: makes the root ready to run programs
  mount -t proc proc "$1/proc"
  mount --bind /dev "$1/dev"
  mount --bind /dev/pts "$1/dev/pts"
  mount -t tmpfs tmpfs "$1/dev/shm"
}

inside() {  # inside ROOT COMMAND…: runs a command as a newcomer's shell would
  local root=$1 name bundle=/etc/ssl/certs/ca-certificates.crt environment=()
  shift
  # Programs that bring their own certificates are told of the system's, as on this machine.
  for name in SSL_CERT_FILE PIP_CERT REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS; do
    [ -z "${!name:-}" ] || environment+=("$name=$bundle")
  done
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    [ -z "${!name:-}" ] || environment+=("$name=${!name}")
  done
  chroot "$root" env -i HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${environment[@]}" "$@"
}

make_root() {  # make_root RELEASE ROOT
  leave "$2"
  if [ -n "$keep" ] && [ -x "$2/usr/bin/make" ]; then
    enter "$2"
    return
  fi
  rm -rf --one-file-system "$2"
  debootstrap --variant=minbase "$1" "$2" "$(mirror)"
  apt_settings >"$2/etc/apt/apt.conf.d/90host"
  cp -L /etc/resolv.conf "$2/etc/resolv.conf"
  mkdir -p "$2/usr/local/share"
  cp -r /usr/local/share/ca-certificates "$2/usr/local/share/"
  enter "$2"
  inside "$2" apt-get update -qq
  inside "$2" apt-get install -y -q --no-install-recommends ca-certificates make git
}

copy_tree() {  # copy_tree ROOT: copies what git would commit; an older copy's build/ stays
  mkdir -p "$1/$home"
  find "$1/$home" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
  git -C "$tree" ls-files -z --cached --others --exclude-standard |
    (cd "$tree" && xargs -0 sh -c 'for file; do [ ! -e "$file" ] || printf "%s\0" "$file"; done' _) |
    tar -C "$tree" --null -T - -cf - | tar -C "$1/$home" -xf -
}

# try_dist ROOT: unpacks the archive of this checkout and walks through it.
try_dist() {
  local archive
  archive=$(ls -t "$tree"/build/pie-*.tar.gz 2>/dev/null | head -n 1)
  [ -n "$archive" ] || { echo "there is no archive. Run: make dist" >&2; return 1; }
  rm -rf "$1/opt/pie"
  mkdir -p "$1/opt/pie"
  tar -C "$1/opt/pie" --strip-components=1 -xzf "$archive"
  cp "$tree/packaging/check_installation.sh" "$1/opt/"
  inside "$1" /opt/check_installation.sh /opt/pie
}

try() {  # try RELEASE: succeeds if every target does
  local root=$roots/$1 target
  make_root "$1" "$root"
  [ "${targets[*]}" = dist ] || copy_tree "$root"
  for target in "${targets[@]}"; do
    if [ "$target" = dist ]; then
      echo "== $1: the archive"
      try_dist "$root"
      continue
    fi
    echo "== $1: make $target"
    inside "$root" make -C "/$home" "$target"
  done
}

mkdir -p "$roots"
trap 'for release in "${releases[@]}"; do leave "$roots/$release"; done' EXIT
failed=()
for release in "${releases[@]}"; do
  log=$roots/$release.log
  echo "$release: make ${targets[*]} in an empty root; the log is $log"
  began=$SECONDS
  # A subshell with its own -e: inside `if` the shell would go on after an error.
  set +e
  (set -e; try "$release") >"$log" 2>&1 </dev/null
  status=$?
  set -e
  leave "$roots/$release"
  if [ $status = 0 ]; then
    echo "$release: passed in $((SECONDS - began)) s"
  else
    tail -n 20 "$log" | sed 's/^/  | /'
    echo "$release: FAILED after $((SECONDS - began)) s"
    failed+=("$release")
  fi
done
[ ${#failed[@]} = 0 ]
