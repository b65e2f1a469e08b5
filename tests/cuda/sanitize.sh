#!/usr/bin/env bash
# Runs a part of the tests of the CUDA device under compute-sanitizer, and prints a line for each
# tool: memcheck, racecheck and initcheck. Needs a GPU and build/bin/cuda_test (make test-cuda).
#
#   tests/cuda/sanitize.sh [TOOL…]
#
# The tools slow kernels down by ten to a thousand times, so tests that print speeds and most models
# are left out. PIE_SANITIZER_FILTER replaces the choice of tests, PIE_SANITIZER_SECONDS the limit
# for each tool. Exits with 1 if a tool finds something or does not end.
set -u
cd "$(dirname "$0")/../.."
test_program=build/bin/cuda_test
seconds=${PIE_SANITIZER_SECONDS:-200}
filter=${PIE_SANITIZER_FILTER:-"AttentionTest.*:LayerTest.*:ProductTest.*:PackedTest.*:StreamedProductTest.*:SamplingTest.*:PageTransfersTest.*:*LogitsAre*/llama-*Speed*:*Exhaustive*:StreamedProductTest.Fp8Layers*"}
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ -z "$sanitizer" ]; then
  echo "compute-sanitizer: not found" >&2
  exit 1
fi
# Racecheck has to be told of more than 16 barriers in shared memory, and takes minutes for draws.
racecheck_flags=(--num-cuda-barriers 64)
racecheck_leaves_out=":SamplingTest.ChoosesWhat*"
tools=("$@")
[ ${#tools[@]} -gt 0 ] || tools=(memcheck racecheck initcheck)
failed=0
for tool in "${tools[@]}"; do
  log=build/sanitize-$tool.log
  begin=$SECONDS
  flags=()
  tests=$filter
  if [ "$tool" = racecheck ]; then
    flags=("${racecheck_flags[@]}")
    tests=$filter$racecheck_leaves_out
  fi
  timeout "$seconds" "$sanitizer" --tool "$tool" "${flags[@]}" --error-exitcode 9 --print-limit 20 \
    "$test_program" --gtest_filter="$tests" > "$log" 2>&1
  code=$?
  passed=$(grep -c "^\[       OK" "$log")
  summary=$(grep -E "ERROR SUMMARY|RACECHECK SUMMARY" "$log" | tail -1 | sed 's/^=* *//')
  case $code in
    0) verdict="clean" ;;
    124) verdict="did not end in $seconds s" ;;
    9) verdict="FOUND ERRORS" ;;
    *) verdict="tests failed (exit $code)" ;;
  esac
  [ $code -eq 0 ] || failed=1
  ran=$(grep -oE "^\[==========\] [0-9]+ tests? from .* ran" "$log" | grep -oE "[0-9]+ tests?" | head -1)
  echo "$tool: $verdict; ${ran:-$passed tests ended}; ${summary:-no summary}; $((SECONDS - begin)) s; $log"
done
exit $failed
