#include <chrono>
#include <memory>

#include "checks.h"

using namespace inferlet;
using namespace std::chrono_literals;

namespace {

Task<int> AtOnce(int value) {
  co_return value;
}

Task<int> Later(int value, std::chrono::milliseconds wait) {
  co_await Sleep(wait);
  co_return value;
}

Task<int> Nested(int depth) {
  if (depth == 0) co_return co_await Later(1, 1ms);
  co_return co_await Nested(depth - 1) + 1;
}

// Records its destruction, however the coroutine ends.
struct Witness {
  bool& gone;
  ~Witness() { gone = true; }
};

Task<void> Endless(bool& gone) {
  Witness witness{gone};
  for (;;) co_await Sleep(1h);
}

Task<Result<int>> Fails() {
  co_return Error("as asked");
}

Task<Result<int>> PassesOn() {
  co_return PIE_TRY(co_await Fails()) + 1;
}

Task<std::unique_ptr<int>> MoveOnly() {
  co_return std::make_unique<int>(5);
}

}  // namespace

Task<Result<void>> CheckTasks(Faults& faults) {
  // The stack does not grow when many tasks end at once.
  int64_t sum = 0;
  for (int i = 0; i < 1'000'000; ++i) sum += co_await AtOnce(1);
  faults.Expect(sum == 1'000'000, "a long loop");
  faults.Expect(co_await Nested(200) == 201, "a deep chain");

  std::vector<Task<int>> many;
  for (int i = 0; i < 500; ++i) many.push_back(Later(i, std::chrono::milliseconds(i % 7)));
  const std::vector<int> values = co_await WhenAll(std::move(many));
  faults.Expect(values.size() == 500 && values[0] == 0 && values[499] == 499, "WhenAll of many");
  faults.Expect((co_await WhenAll(std::vector<Task<int>>())).empty(), "WhenAll of none");
  const auto [a, b] = co_await WhenAll(AtOnce(1), Later(2, 1ms));
  faults.Expect(a == 1 && b == 2, "WhenAll of two");

  bool gone = false;
  const auto first = co_await Select(Endless(gone), Later(3, 1ms));
  faults.Expect(first.index() == 1 && std::get<1>(first) == 3, "Select");
  faults.Expect(gone, "the loser of Select was cancelled");
  std::vector<Task<int>> race;
  race.push_back(Later(1, 1h));
  race.push_back(Later(2, 1ms));
  race.push_back(AtOnce(3));
  faults.Expect(co_await WhenAny(std::move(race)) == std::pair<size_t, int>(2, 3), "WhenAny");

  gone = false;
  faults.Expect(!co_await Timeout(Endless(gone), 1ms), "a timeout");
  faults.Expect(gone, "what timed out was cancelled");
  faults.Expect(co_await Timeout(AtOnce(4), 1h) == 4, "no timeout");
  // Both are ready in the same poll. The one that is resumed first cancels the other.
  for (int i = 0; i < 20; ++i) co_await Select(Sleep(0ns), Sleep(0ns), Sleep(0ns));

  const Result<int> failed = co_await PassesOn();
  faults.Expect(!failed && failed.error() == "as asked", "an error passed on");
  faults.Expect(*co_await MoveOnly() == 5, "a value that cannot be copied");
  std::vector<Result<int>> mixed = {1, Error("x"), 2};
  faults.Expect(Collect(mixed).error() == "x", "Collect");
  co_return {};
}
