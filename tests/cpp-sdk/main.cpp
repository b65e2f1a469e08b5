// Runs one group of checks and returns their faults, or does what the engine must survive.
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "checks.h"

using namespace inferlet;

namespace {

// Waits for something that never happens.
struct Never {
  bool await_ready() { return false; }
  void await_suspend(std::coroutine_handle<>) {}
  void await_resume() {}
};

Task<Result<void>> ReturnsNothing(Json) {
  co_return {};
}

Result<void> FailsPlainly(std::string input) {
  return Error("no: " + input);
}

Result<Json> Echo(Json input) {
  return input;
}

Task<Result<std::string>> TakesNothing() {
  co_return "here";
}

Result<void> TakesAndReturnsNothing() {
  return {};
}

// The input of a program and its return value, as texts.
void CheckTexts(Faults& faults) {
  const auto text = [](const Result<std::string>& returned) { return returned.value_or("error"); };
  faults.Expect(text(inferlet::detail::Call(&ReturnsNothing, "{}")).empty(),
                "nothing is the empty text");
  faults.Expect(inferlet::detail::Call(&FailsPlainly, "x").error() == "no: x",
                "an error of a void Main");
  faults.Expect(text(inferlet::detail::Call(&Echo, "")) == "{}", "no input is an empty object");
  faults.Expect(text(inferlet::detail::Call(&Echo, " \n")) == "{}",
                "a blank input is an empty object");
  faults.Expect(text(inferlet::detail::Call(&Echo, "null")) == "null", "null stays null");
  faults.Expect(text(inferlet::detail::Call(&Echo, "\"a\"")) == "a", "a string is the text itself");
  for (const char* input : {"", "{}", "no JSON"}) {
    faults.Expect(text(inferlet::detail::Call(&TakesNothing, input)) == "here",
                  "a Main without input ignores it");
    faults.Expect(text(inferlet::detail::Call(&TakesAndReturnsNothing, input)).empty(),
                  "a plain Main without input ignores it");
  }
}

// libc++'s checks end the run, and the backtrace names this function.
[[gnu::noinline]] int PickFrom(const std::vector<int>& numbers, size_t index) {
  return numbers.at(index);  // crash: range
}

// Recurses until the stack is full.
[[gnu::noinline]] std::string Deeper(const std::vector<int>& numbers) {  // crash: deep
  std::vector<int> more = numbers;
  more.push_back(1);
  return Deeper(more) + std::to_string(more.size());
}

// Inlined wherever it is called. The backtrace names the calling line in the caller's frame.
inline int Unwrapped(const std::optional<int>& number) {
  return *number;  // crash: optional
}

// An instruction that traps. The engine's compiler may turn a condition and a trap into one
// instruction.
[[gnu::noinline]] void Trap() {
  __builtin_trap();  // crash: trap
}

// Ends the run in the requested way.
Result<Json> Crash(const std::string& how) {
  std::vector<int> numbers{1, 2};
  if (how == "abort") {
    std::abort();  // crash: abort
  }
  if (how == "optional") {
    return Unwrapped(std::nullopt);
  }
  if (how == "index") {
    return numbers[how.size()];  // crash: index
  }
  if (how == "number") {
    return std::stoi(how);  // crash: number
  }
  if (how == "trap") {
    Trap();
  }
  if (how == "memory") {
    return *reinterpret_cast<volatile int*>(0xFFFFFF00);  // crash: memory
  }
  if (how == "deep") {
    return Error(Deeper(numbers));
  }
  return Error("there is no crash " + how);
}

// The texts of errors of MCP servers.
void CheckMcpErrors(Faults& faults) {
  const mcp::McpError plain{.code = -7, .message = "no", .data = std::nullopt};
  faults.Expect(std::string(plain) == "no (code -7)", "an error without data");
  const mcp::McpError full{.code = -7, .message = "no", .data = "{\"why\":1}"};
  faults.Expect(std::string(full) == "no (code -7): {\"why\":1}", "an error's text has its data");
}

Task<Result<Json>> Main(Json input) {
  const std::string group = PIE_TRY(input.Get<std::string>("group"));
  Faults faults;
  if (group == "json") {
    CheckTexts(faults);
    CheckMcpErrors(faults);
    PIE_TRY(co_await CheckJson(faults));
    PIE_TRY(co_await CheckDescribed(faults));
  } else if (group == "tasks") {
    PIE_TRY(co_await CheckTasks(faults));
  } else if (group == "generators") {
    PIE_TRY(co_await CheckGenerators(faults));
  } else if (group == "contexts") {
    PIE_TRY(co_await CheckContexts(faults));
  } else if (group == "stdout") {
    std::printf("one line\nand a part");
  } else if (group == "range") {
    co_return PickFrom({1, 2}, group.size());
  } else if (group == "crash") {
    co_return Crash(PIE_TRY(input.Get<std::string>("how")));
  } else if (group == "deadlock") {
    co_await Never();
  } else {
    co_return Error("there is no group " + group);
  }
  co_return Json::Object({{"faults", faults.Texts()}});
}

}  // namespace

PIE_MAIN(Main)
