#!/usr/bin/env bash
# Compiles a program against the declarations (.d.ts) of the JavaScript SDK and client as a user's
# tsc sees them: in strict mode, without the sources, and without skipLibCheck.
#
#   check_declarations.sh NODE_MODULES COMPILED_CLIENT
set -euo pipefail

[ $# = 2 ] || { echo "usage: check_declarations.sh NODE_MODULES COMPILED_CLIENT" >&2; exit 2; }
modules=$1 client=$2
cd "$(dirname "$0")/.."
tsc=$modules/.bin/tsc
[ -x "$tsc" ] || { echo "there is no $tsc: run make setup" >&2; exit 1; }
[ -d "$client" ] || { echo "there is no $client: run scripts/build_clients.py javascript" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
package=$folder/node_modules/inferlet
mkdir -p "$package"
cp sdk/javascript/package.json "$package/"
sdk/javascript/scripts/build_types.sh "$package/types" "$tsc"
cp sdk/javascript/test/strict_program.ts "$folder/program.ts"
cat >"$folder/tsconfig.json" <<JSON
{
  "compilerOptions": {
    "target": "ES2022",
    "lib": ["ESNext", "WebWorker"],
    "module": "ESNext",
    "moduleResolution": "bundler",
    "strict": true,
    "noUncheckedIndexedAccess": true,
    "exactOptionalPropertyTypes": true,
    "noEmit": true,
    "types": []
  },
  "files": ["program.ts"]
}
JSON
"$tsc" -p "$folder"
"$tsc" -p "$folder" --module NodeNext --moduleResolution NodeNext --lib ESNext,DOM
echo "typescript: the declarations of sdk/javascript"

# The client's declarations are beside what scripts/build_clients.py has compiled.
cp -r "$client" "$folder/client"
cat >"$folder/client/program.ts" <<'TS'
import { Event, PieClient, type Process, ServerError } from './dist/index.js';

export async function ask(uri: string): Promise<string> {
  await using client = await PieClient.connect(uri, { username: 'ada' });
  const process: Process = await client.launchProcess('chat', { prompt: 'Hello' });
  try {
    for await (const { event, value } of process) {
      if (event === Event.Return) return String(value);
    }
  } catch (error) {
    if (error instanceof ServerError) console.log(error.message);
  }
  return '';
}
TS
cat >"$folder/client/tsconfig.json" <<'JSON'
{
  "compilerOptions": {
    "target": "ES2022",
    "lib": ["ES2023", "ESNext.Disposable", "DOM"],
    "module": "NodeNext",
    "moduleResolution": "NodeNext",
    "strict": true,
    "noEmit": true,
    "types": ["node"]
  },
  "files": ["program.ts"]
}
JSON
"$tsc" -p "$folder/client"
# A program that imports modules of Node mostly has @types/node, which declares them too.
"$tsc" -p "$folder" --lib ESNext --types node --typeRoots "$folder/client/node_modules/@types" \
  --exactOptionalPropertyTypes false # which @types/node does not pass
echo "typescript: the declarations of client/javascript"
