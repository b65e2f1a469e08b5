#!/usr/bin/env bash
# Copies what was built to a folder from which it runs without this checkout.
#
#   scripts/install.sh PREFIX            called by `make install PREFIX=…`
#   scripts/install.sh --archive         called by `make dist`: packs an installation into an archive
#
# The folder may be moved afterwards: pie finds everything relative to its own place. It holds
#   bin/            pie, bakery, pie-client
#   lib/pie/        the libraries that pie links, so that another system needs none of them
#   share/pie/      SDKs, contract, clients, bakery, shipped inferlets, set-up, an example config
#   share/doc/pie/  guides and licences
# `pie setup` then prepares a user's tools for building inferlets.
set -euo pipefail

cd "$(dirname "$0")/.."
case ${1:-} in
  --archive) archive=yes ;;
  '' | -*) sed -n '4,5s/^# *//p' "$0" >&2; exit 2 ;;
esac

version=$(sed -n 's/^project(pie VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
name=pie-$version-linux-$(uname -m)
if [ -n "${archive:-}" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  prefix=$work/$name
else
  prefix=$1
fi
share=$prefix/share/pie
documents=$prefix/share/doc/pie
mkdir -p "$prefix"/{bin,lib/pie,lib/systemd/system} "$share" "$documents"

# copy_sources FOLDER…: copies what belongs to the project, and not what was built in its folders.
copy_sources() {
  if git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard -- "$@"
  else
    find "$@" \( -name target -o -name node_modules -o -name __pycache__ -o -name dist \) -prune \
      -o \( -type f -o -type l \) -print0
  fi | sed -z '/\/templates\//b; /\/tests\//d' | xargs -0 sh -c 'for file; do [ ! -e "$file" ] || printf "%s\0" "$file"; done' _ |
    tar --null -T - -cf - | tar -C "$share" -xf -
}

# The libraries that the program links, except those of the C library, which every system has.
copy_libraries() {
  ldd build/bin/pie | awk '$2 == "=>" { print $3 }' |
    grep -vE '/(libc|libm|libdl|librt|libpthread)\.so' | xargs -r cp -Lt "$prefix/lib/pie"
}

rm -rf "$share" "$prefix/lib/pie"/*
mkdir -p "$share"
install -m 755 build/bin/pie "$prefix/bin/pie"
for tool in bakery pie-client; do install -m 755 packaging/launcher.sh "$prefix/bin/$tool"; done
copy_libraries
copy_sources bakery sdk/rust sdk/wasi sdk/python sdk/javascript sdk/cpp wit client scripts/setup.sh scripts/setup
cp -r build/share/pie/. "$share/"
# The unit needs an absolute path. An archive's is a guess that its user may have to change.
if [ -n "${archive:-}" ]; then service_prefix=/opt/pie; else service_prefix=$(readlink -m "$prefix"); fi
sed "s|@PREFIX@|$service_prefix|" packaging/pie.service >"$prefix/lib/systemd/system/pie.service"
home=$(mktemp -d)
PIE_HOME=$home "$prefix/bin/pie" config init >/dev/null
mv "$home/config.toml" "$share/config.example.toml"
rmdir "$home"
cp -r README.md CHANGELOG.md SECURITY.md LICENSE docs/guide docs/reference docs/images "$documents/"
PYTHONPATH=bakery/src build/venv/bin/python scripts/licences.py >"$documents/LICENCES.txt"

if [ -n "${archive:-}" ]; then
  tar -C "$work" --sort=name --owner=0 --group=0 -czf "build/$name.tar.gz" "$name"
  echo "build/$name.tar.gz: $(du -h "build/$name.tar.gz" | cut -f1). Unpack it anywhere, then: $name/bin/pie setup"
else
  echo "installed in $prefix. Next, for building inferlets: $prefix/bin/pie setup"
fi
