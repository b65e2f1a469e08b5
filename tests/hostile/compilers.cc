// Components that are hard to compile: compilers have limits of time and memory, delay no other
// work, and end with the engine.
#include <filesystem>
#include <future>
#include <set>

#include "hostile.h"

namespace pie::host {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

void PutNumber(std::string& bytes, uint64_t number) {
  do {
    const auto low = static_cast<char>(number & 0x7f);
    number >>= 7;
    bytes += static_cast<char>(number != 0 ? low | 0x80 : low);
  } while (number != 0);
}

std::string Section(char id, const std::string& content) {
  std::string section(1, id);
  PutNumber(section, content.size());
  return section + content;
}

// A component of some kilobytes. It has one function: loops within loops, around code that changes
// many variables. A compiler that keeps each variable in a value of its own needs one for each
// variable at the head of each loop.
std::string Bomb(uint32_t loops, uint32_t variables) {
  std::string body;
  PutNumber(body, 1);
  PutNumber(body, variables);
  body += '\x7f';                                                           // i32
  for (uint32_t i = 0; i < loops; ++i) body += std::string("\x03\x40", 2);  // loop
  for (uint32_t i = 0; i < variables; ++i) {
    body += '\x20';  // local.get i
    PutNumber(body, i);
    body += '\x20';  // local.get of the next one
    PutNumber(body, (i + 1) % variables);
    body += '\x6a';  // i32.add
    body += '\x21';  // local.set i
    PutNumber(body, i);
  }
  for (uint32_t i = 0; i < loops; ++i) {
    body += '\x20';  // local.get
    PutNumber(body, i % variables);
    body += std::string("\x0d\x00\x0b", 3);  // br_if 0, end
  }
  body += '\x0b';
  std::string code("\x01", 1);
  PutNumber(code, body.size());
  code += body;
  const std::string module = std::string("\0asm\x01\0\0\0", 8) +
                             Section(1, std::string("\x01\x60\x00\x00", 4)) +
                             Section(3, std::string("\x01\x00", 2)) + Section(10, code);
  return std::string("\0asm\x0d\0\x01\0", 8) + Section(1, module);
}

void PutU32(std::string& bytes, uint32_t number) {
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(number >> 8 * i);
}

std::string Custom(const std::string& name, const std::string& content) {
  std::string named;
  PutNumber(named, name.size());
  return Section(0, named + name + content);
}

// A component whose function `run` calls itself 30 times and traps. Its debug information has
// `count` units, and each of them has the same list of `count` ranges. A reader that puts the
// ranges of all units into one table needs count² entries, for each frame of the backtrace again.
std::string DebugBomb(uint32_t count) {
  using namespace std::string_literals;
  // (func $r (param i32)
  //   (if (local.get 0) (then (call $r (i32.sub (local.get 0) (i32.const 1)))) (else unreachable)))
  // (func (export "run") (param i32 i32) (result i32) (call $r (i32.const 30)) (i32.const 0))
  std::string module =
      "\0asm\x01\0\0\0"
      "\x01\x13\x03\x60\x04\x7f\x7f\x7f\x7f\x01\x7f\x60\x01\x7f\x00\x60\x02\x7f\x7f\x01\x7f"
      "\x03\x04\x03\x00\x01\x02\x05\x03\x01\x00\x01"
      "\x07\x17\x03\x03mem\x02\x00\x07realloc\x00\x00\x03run\x00\x02"
      "\x0a\x22\x03\x05\x00\x41\x80\x08\x0b"
      "\x11\x00\x20\x00\x04\x40\x20\x00\x41\x01\x6b\x10\x01\x05\x00\x0b\x01\x0b"
      "\x08\x00\x41\x1e\x10\x01\x41\x00\x0b"s;
  std::string units, ranges;
  for (uint32_t i = 0; i < count; ++i) {
    PutU32(units, 12);                     // bytes of the unit
    units += "\x04\x00\0\0\0\0\x04\x01"s;  // version 4, abbreviations at 0, size of an address
    PutU32(units, 0);                      // its ranges
    PutU32(ranges, 4 * i + 1);
    PutU32(ranges, 4 * i + 4);
  }
  ranges += std::string(8, '\0');
  // One abbreviation: a compilation unit without children, with the attribute DW_AT_ranges.
  module += Custom(".debug_abbrev", "\x01\x11\x00\x55\x17\x00\x00\x00"s);
  module += Custom(".debug_info", units) + Custom(".debug_ranges", ranges);
  // An instance of the module, and its function as the export pie:trap/run.
  return "\0asm\x0d\0\x01\0"s + Section(1, module) + Section(2, "\x01\x00\x00\x00"s) +
         Section(7, "\x02\x6a\x01\x73\x01\x73\x40\x01\x05input\x73\x00\x00"s) +
         Section(6,
                 "\x03\x00\x00\x01\x00\x03run\x00\x02\x01\x00\x03mem"
                 "\x00\x00\x01\x00\x07realloc"s) +
         Section(8, "\x01\x00\x00\x00\x02\x03\x00\x04\x01\x01"s) +
         Section(5, "\x01\x01\x01\x00\x03run\x01\x00"s) +
         Section(11, "\x01\x00\x0cpie:trap/run\x05\x00\x00"s);
}

class Compilers : public testing::Test {
 protected:
  void Start(wasm::CompileLimits limits) {
    EngineOptions options;
    options.runtime.compile_limits = limits;
    auto engine = StartAnother(std::move(options));
    ASSERT_TRUE(engine) << engine.error().text;
    engine_ = *std::move(engine);
  }
  // Compiles on behalf of a user, as a server does.
  std::future<std::string> Compile(std::string_view user, std::string component) {
    auto done = std::make_shared<std::promise<std::string>>();
    const bool queued = engine_->compile_work().Push(
        user, [this, done, user = std::string(user), component = std::move(component)] {
          auto program = engine_->Compile(component, user, Compiling::kAllowed);
          done->set_value(program ? "compiled" : program.error().text);
        });
    EXPECT_TRUE(queued);
    return done->get_future();
  }
  std::unique_ptr<Engine> engine_;
};

TEST_F(Compilers, AComponentThatTakesLongHoldsUpNobody) {
  Start({.cpu_secs = 1});
  std::vector<std::future<std::string>> attacks;
  for (int i = 0; i < 6; ++i) attacks.push_back(Compile("mallory", Bomb(1'000, 4'000 + i)));
  Neighbour neighbour(*engine_, R"({"mode": "steady"})");
  neighbour.P99Of(5);
  neighbour.Start();
  // Another user's component is compiled meanwhile. It has no entry point, which is found out last.
  auto other = Compile("neighbour", Bomb(2, 3));
  ASSERT_EQ(other.wait_for(seconds(30)), std::future_status::ready);
  EXPECT_NE(other.get().find("no entry point"), std::string::npos);
  EXPECT_NE(attacks.back().wait_for(seconds(0)), std::future_status::ready);
  const std::string why = attacks[0].get();
  EXPECT_NE(why.find("more than 1 s of processor time"), std::string::npos) << why;
  EXPECT_LT(neighbour.Stop().count(), 2.0) << neighbour.launches() << " launches";
  EXPECT_GT(neighbour.launches(), 0u);
  const auto begin = steady_clock::now();
  engine_->StopCompiling();
  EXPECT_LT(steady_clock::now() - begin, seconds(2));
  engine_.reset();
}

TEST_F(Compilers, MemoryHasALimit) {
  Start({.cpu_secs = 60, .memory_bytes = 64 << 20});
  const std::string why = Compile("mallory", Bomb(1'000, 8'000)).get();
  EXPECT_NE(why.find("more than 64 MiB of memory"), std::string::npos) << why;
  auto other = Compile("neighbour", Bomb(2, 3));
  EXPECT_NE(other.get().find("no entry point"), std::string::npos);
}

TEST_F(Compilers, CodeInTheCacheCountsForItsUser) {
  Start({});
  const auto entries = [] {
    std::set<std::string> found;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(Env("PIE_HOSTILE_CACHE"))) {
      if (entry.path().extension() == ".cwasm") found.insert(entry.path());
    }
    return found;
  };
  // Returns the owners in the names of the cache entries that a user's compilation makes.
  const auto owners_of = [&](std::string_view user, std::string component) {
    const auto before = entries();
    // The cache may have the component from an earlier run.
    component += Custom("made", std::to_string(steady_clock::now().time_since_epoch().count()));
    Compile(user, std::move(component)).get();
    std::set<std::string> owners;
    for (const std::string& path : entries()) {
      // <checksum>.<owner>.cwasm
      const std::filesystem::path name = std::filesystem::path(path).stem();
      if (!before.contains(path)) owners.insert(name.extension());
    }
    return owners;
  };
  const auto mallory = owners_of("mallory", Bomb(2, 4)), more = owners_of("mallory", Bomb(2, 5));
  const auto neighbour = owners_of("neighbour", Bomb(2, 6));
  EXPECT_EQ(mallory.size(), 1u);
  EXPECT_EQ(mallory, more);
  EXPECT_EQ(neighbour.size(), 1u);
  EXPECT_NE(mallory, neighbour);
}

TEST_F(Compilers, DebugInformationOfATrapHoldsUpNobody) {
  Start({});
  Manifest manifest;
  manifest.name = "trap";
  manifest.version = "0.1.0";
  const Status added = engine_->AddProgram(manifest, DebugBomb(6'000), {});
  ASSERT_TRUE(added) << added.error().text;
  Neighbour neighbour(*engine_, R"({"mode": "steady"})");
  neighbour.P99Of(5);
  neighbour.Start();
  const auto begin = steady_clock::now();
  for (int i = 0; i < 4; ++i) {
    auto process = engine_->Launch("trap", "", {.username = "mallory"});
    ASSERT_TRUE(process) << process.error().text;
    const wasm::Exit exit = (*process)->Wait();
    EXPECT_EQ(exit.kind, wasm::Exit::Kind::kTrapped);
    EXPECT_NE(exit.text.find("wasm backtrace:"), std::string::npos) << exit.text;
  }
  // Reading the ranges takes many seconds and gigabytes.
  EXPECT_LT(steady_clock::now() - begin, seconds(5));
  EXPECT_LT(neighbour.Stop().count(), 2.0) << neighbour.launches() << " launches";
}

}  // namespace
}  // namespace pie::host
