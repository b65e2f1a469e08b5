#!/usr/bin/env bash
# Walks through an installation as a user would: sets it up, makes an inferlet in each language,
# builds and runs it, serves it, and talks to the server.
#
#   packaging/check_installation.sh PREFIX [LANGUAGE…]     rust, python, ts, cpp; by default all
#
# It needs nothing of a checkout. The first problem ends it with an error.
set -euo pipefail

prefix=$(cd "${1:?usage: check_installation.sh PREFIX [LANGUAGE…]}" && pwd)
shift
languages=("$@")
[ ${#languages[@]} -gt 0 ] || languages=(rust python ts cpp)
PATH=$prefix/bin:$PATH
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
cd "$work"
export PIE_HOME=$work/home

pie --version
pie setup
for language in "${languages[@]}"; do
  pie new "app-$language" "--$language"
  pie build "app-$language" -o "app-$language.wasm"
  pie run --dummy -p "app-$language.wasm" -m "app-$language/Pie.toml" -- --prompt hello >"$language.txt"
  [ -s "$language.txt" ] || { echo "the inferlet in $language returned nothing" >&2; exit 1; }
  echo "$language: built and run"
done

first=app-${languages[0]}
pie serve --dummy --port 0 >serve.log 2>&1 &
server=$!
for _ in $(seq 100); do
  address=$(grep -o 'ws://127.0.0.1:[0-9]*' serve.log | head -n 1 || true)
  [ -z "$address" ] || break
  sleep 0.1
done
[ -n "$address" ] || { cat serve.log >&2; exit 1; }
pie-client --uri "$address" install "$first.wasm" -m "$first/Pie.toml"
pie-client --uri "$address" submit "$first" --input '{"prompt": "hello"}' >client.txt
[ -s client.txt ] || { echo "the client received nothing" >&2; exit 1; }
kill -TERM "$server"
wait "$server"
server=
echo "served $first"
