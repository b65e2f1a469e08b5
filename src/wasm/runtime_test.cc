#include "wasm/runtime.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <string>

#include "wasm/signal.h"

namespace pie::wasm {
namespace {

// No guest runs in these tests, so nothing calls the functions of the table.
const pie_bridge::HostTable& UnusedTable() {
  using Pointers = std::array<uintptr_t, sizeof(pie_bridge::HostTable) / sizeof(uintptr_t)>;
  static const auto table = [] {
    Pointers pointers;
    pointers.fill(std::bit_cast<uintptr_t>(+[] { PIE_CHECK(false); }));
    return std::bit_cast<pie_bridge::HostTable>(pointers);
  }();
  return table;
}

RuntimeOptions Small() {
  RuntimeOptions options;
  options.worker_threads = 1;
  options.max_instances = 2;
  options.host = &UnusedTable();
  return options;
}

TEST(Runtime, StartsAndStops) {
  for (int i = 0; i < 3; ++i) {
    auto runtime = Runtime::Start(Small());
    ASSERT_TRUE(runtime) << runtime.error().text;
    EXPECT_EQ((*runtime)->live_instances(), 0u);
  }
}

TEST(Runtime, ReportsThatTheMachineHasTooLittleMemory) {
  RuntimeOptions options = Small();
  options.max_instances = 100'000'000;
  auto runtime = Runtime::Start(options);
  ASSERT_FALSE(runtime);
  EXPECT_TRUE(runtime.error().text.starts_with("cannot start the WebAssembly runtime"))
      << runtime.error().text;
}

TEST(Runtime, RefusesFilesThatAreNoComponents) {
  auto runtime = *Runtime::Start(Small());
  const std::pair<std::string, const char*> cases[] = {
      {"", "the file is empty"},
      {"#!/bin/sh", "not a WebAssembly component"},
      {std::string("\0asm\1\0\0\0", 8), "a core WebAssembly module"},
      {std::string("\0asm\x0d\0\1\0junk", 12), "not a valid component"},
      {std::string("\0asm\x0d\0\1\0", 8), "no entry point"},
      {std::string("\0asm\x0d\0\1\0", 8) + std::string(3 << 20, '\xff'), "not a valid component"},
  };
  for (const auto& [bytes, words] : cases) {
    auto program = runtime->Load(bytes, {}, {});
    ASSERT_FALSE(program) << words;
    EXPECT_NE(program.error().text.find(words), std::string::npos) << program.error().text;
  }
}

TEST(Runtime, ReportsCompilingOnlyWhenItCompiles) {
  auto runtime = *Runtime::Start(Small());
  int compiled = 0;
  const auto count = [&] { ++compiled; };
  EXPECT_FALSE(runtime->Load("not code", {}, count));
  EXPECT_EQ(compiled, 0);
  EXPECT_FALSE(runtime->Load(std::string("\0asm\x0d\0\1\0", 8), {}, count));
  EXPECT_EQ(compiled, 1);
}

TEST(Signal, MayFireWhileNothingWaits) {
  Signal signal;
  signal.Clear();
  signal.Fire();
  signal.Fire();
  signal.Clear();
}

}  // namespace
}  // namespace pie::wasm
