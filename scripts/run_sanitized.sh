#!/usr/bin/env bash
# Builds the C++ tests with a sanitizer and runs them.
#
#   scripts/run_sanitized.sh asan [CTEST ARGUMENT…]    address, leaks and undefined behaviour
#   scripts/run_sanitized.sh tsan [CTEST ARGUMENT…]    data races
#
# What is not reported, and why, is written in tests/sanitizers/. The bridge (Rust) is not
# instrumented. The fuzz tests are left out: every build of them has its own sanitizers.
set -euo pipefail

preset=${1:?usage: run_sanitized.sh asan|tsan [CTEST ARGUMENT…]}
shift
cd "$(dirname "$0")/.."
rules=$PWD/tests/sanitizers

case $preset in
  asan)
    # wasmtime handles SIGSEGV itself: guests that touch memory out of bounds cause it.
    export ASAN_OPTIONS=allow_user_segv_handler=1:detect_stack_use_after_return=0
    export LSAN_OPTIONS=suppressions=$rules/leaks.txt:print_suppressions=0
    export UBSAN_OPTIONS=suppressions=$rules/undefined.txt:print_stacktrace=1:halt_on_error=1
    ;;
  tsan)
    export TSAN_OPTIONS=suppressions=$rules/races.txt:halt_on_error=0:second_deadlock_stack=1
    ;;
  *) echo "unknown preset $preset: asan or tsan" >&2; exit 2 ;;
esac

test -f "build/$preset/build.ninja" || cmake --preset "$preset"
cmake --build "build/$preset" --target cpp_tests
exec ctest --test-dir "build/$preset" --output-on-failure "$@"
