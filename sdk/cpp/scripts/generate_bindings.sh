#!/usr/bin/env bash
# Writes generated/ anew from wit/ and sdk/wasi/. `make bindings` calls it; what it writes is committed.
#
# wit-bindgen has no package but its crate: it is compiled once, into the cache folder.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.61.1
cache=${PIE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pie}
tool=$cache/wit-bindgen-$version/bin/wit-bindgen
if [ ! -x "$tool" ]; then
  echo "building wit-bindgen $version, once (about two minutes)"
  cargo install -q --locked "wit-bindgen-cli@$version" --no-default-features --features cpp \
    --root "$cache/wit-bindgen-$version"
fi

wit=$(mktemp -d)
trap 'rm -rf "$wit"' EXIT
../wasi/merged_wit.sh "$wit" client
rm -rf generated
"$tool" cpp "$wit" --world imports --out-dir generated >/dev/null 2>&1
rm generated/imports_component_type.o  # bakery embeds the type of the whole world

# The generator copies the elements out of a returned list, but never frees the list itself.
python3 - <<'PYTHON'
import pathlib, re
path = pathlib.Path("generated/imports.cpp")
element = re.compile(r"(_result(\d+)\.initialize\(i, std::move\(_e\2\)\);\s*\})")
text, count = element.subn(r"\1\n  if (_len\2 > 0) free(_base\2);  // added by generate_bindings.sh", path.read_text())
assert count >= 4, "the generator writes lists differently now: look at generate_bindings.sh"
path.write_text(text)
PYTHON
