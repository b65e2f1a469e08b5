// Components that are hard to compile: compilers have limits of time and memory, delay no other
// work, and end with the engine.
#include <future>

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

}  // namespace
}  // namespace pie::host
