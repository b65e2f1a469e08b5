#!/bin/sh
# Writes a header with the commit of this checkout: write_commit.sh HEADER. Called by CMake in every
# build; the file is written only if the commit changed.
header=${1:?usage: write_commit.sh HEADER}
cd "$(dirname "$0")/.." || exit 1
commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
text="constexpr const char* kBuildCommit = \"$commit\";"
[ "$(cat "$header" 2>/dev/null)" = "$text" ] || echo "$text" >"$header"
