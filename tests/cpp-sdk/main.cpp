// Runs one group of checks and returns their faults, or does what the engine must survive.
#include <cstdio>

#include "checks.h"

using namespace inferlet;

namespace {

// Waits for something that never happens.
struct Never {
  bool await_ready() { return false; }
  void await_suspend(std::coroutine_handle<>) {}
  void await_resume() {}
};

Task<Result<Json>> Main(Json input) {
  const std::string group = PIE_TRY(input.Get<std::string>("group"));
  Faults faults;
  if (group == "json") {
    PIE_TRY(co_await CheckJson(faults));
    PIE_TRY(co_await CheckDescribed(faults));
  } else if (group == "tasks") {
    PIE_TRY(co_await CheckTasks(faults));
  } else if (group == "generators") {
    PIE_TRY(co_await CheckGenerators(faults));
  } else if (group == "stdout") {
    std::printf("one line\nand a part");
  } else if (group == "deadlock") {
    co_await Never();
  } else {
    co_return Error("there is no group " + group);
  }
  co_return Json::Object({{"faults", faults.Texts()}});
}

}  // namespace

PIE_MAIN(Main)
