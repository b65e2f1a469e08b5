#include "server/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "host/hash.h"
#include "host/users.h"

namespace pie::server {
namespace {

using nlohmann::json;

struct FakeOutlet final : Outlet {
  int wakes = 0;
  void Wake(const std::shared_ptr<Session>&) override { ++wakes; }
};

class SessionTest : public testing::Test {
 protected:
  std::shared_ptr<Session> Make(bool capture = true) {
    return std::make_shared<Session>(
        Session::Options{.username = "ada", .capture_outputs = capture}, limits, budget);
  }
  // Takes all available events, as `kind:value`.
  static std::vector<std::string> Drain(Session& session, const std::shared_ptr<FakeOutlet>& outlet,
                                        size_t most = SIZE_MAX) {
    std::vector<std::string> all;
    while (all.size() < most) {
      auto outgoing = session.Take(outlet.get());
      if (!outgoing) break;
      session.Sent(outlet.get());
      const json frame = json::from_msgpack(outgoing->frame);
      all.push_back(frame["type"] == "file"
                        ? "file:" + std::to_string(frame["chunk_index"].get<int>())
                        : frame["event"].get<std::string>() + ":" +
                              frame["value"].get<std::string>());
    }
    return all;
  }
  using Texts = std::vector<std::string>;
  Limits limits;
  std::shared_ptr<host::ByteBudget> budget = std::make_shared<host::ByteBudget>(1 << 20);
  std::shared_ptr<FakeOutlet> one = std::make_shared<FakeOutlet>();
  std::shared_ptr<FakeOutlet> two = std::make_shared<FakeOutlet>();
};

TEST_F(SessionTest, DeliversEventsInOrderAndOnce) {
  auto session = Make();
  session->OnMessage("a");
  ASSERT_TRUE(session->Attach(one, {}));
  session->OnOutput(true, "b");
  session->OnMessage("c");
  session->OnExit({wasm::Exit::Kind::kReturned, "done"});
  EXPECT_EQ(Drain(*session, one), (Texts{"stdout:a", "stderr:b", "stdout:c", "return:done"}));
  EXPECT_TRUE(Drain(*session, one).empty());
  EXPECT_EQ(budget->used(), 0u);
}

TEST_F(SessionTest, WakesTheOutletOnceUntilAllEventsAreTaken) {
  auto session = Make();
  ASSERT_TRUE(session->Attach(one, {}));
  EXPECT_TRUE(Drain(*session, one).empty());
  session->OnMessage("a");
  session->OnMessage("b");
  EXPECT_EQ(one->wakes, 1);
  Drain(*session, one);
  session->OnMessage("c");
  EXPECT_EQ(one->wakes, 2);
}

TEST_F(SessionTest, AWatcherTakesNothingFromTheClient) {
  auto session = Make();
  ASSERT_TRUE(session->Attach(one, {}));
  session->OnMessage("before ");
  EXPECT_EQ(session->Look(0).text, "before ") << "what waits for the client is seen too";
  EXPECT_EQ(Drain(*session, one), Texts{"stdout:before "});
  session->OnMessage("a");
  session->OnOutput(true, "b");
  const auto seen = session->Look(7);
  EXPECT_EQ(seen.text, "ab");
  EXPECT_EQ(seen.ending, "");
  EXPECT_EQ(Drain(*session, one), (Texts{"stdout:a", "stderr:b"}));
  session->OnExit({wasm::Exit::Kind::kReturned, "done"});
  EXPECT_EQ(session->Look(seen.next).text, "done");
  EXPECT_EQ(session->Look(seen.next).ending, "return");
  EXPECT_EQ(session->Look(UINT64_MAX).text, "") << "a place that does not exist yet";
}

TEST_F(SessionTest, TextForWatchersIsBoundedAndCharged) {
  auto session = Make();
  ASSERT_TRUE(session->Attach(one, {}));
  session->Look(0);
  for (int i = 0; i < 40'000; ++i) {
    session->OnMessage("äöü");
    Drain(*session, one);
  }
  const auto seen = session->Look(0);
  EXPECT_TRUE(seen.cut);
  EXPECT_EQ(seen.next, 40'000u * 6);
  EXPECT_LE(seen.text.size(), 64u << 10);
  EXPECT_EQ(seen.text.substr(seen.text.size() - 6), "äöü");
  EXPECT_NE(seen.text[0] & 0xC0, 0x80) << "it begins within a character";
  EXPECT_EQ(budget->used(), seen.text.size());
  session.reset();
  EXPECT_EQ(budget->used(), 0u);
}

TEST_F(SessionTest, KeepsTheNewestEventsAndReportsTheLostOnes) {
  auto session = Make();
  for (int i = 0; i < 5000; ++i) session->OnMessage(std::to_string(i));
  ASSERT_TRUE(session->Attach(one, {}));
  const Texts all = Drain(*session, one);
  ASSERT_EQ(all.size(), limits.max_ring_events + 1);
  EXPECT_NE(all[0].find("904 events of this process were dropped"), std::string::npos) << all[0];
  EXPECT_EQ(all[1], "stdout:904");
  EXPECT_EQ(all.back(), "stdout:4999");
}

TEST_F(SessionTest, UnsentEventsAreTakenAgain) {
  auto session = Make();
  ASSERT_TRUE(session->Attach(one, {}));
  session->OnMessage("a");
  session->OnMessage("b");
  ASSERT_TRUE(session->Take(one.get()));  // in flight when the socket broke
  session->Detach(one.get());
  session->OnMessage("c");
  ASSERT_TRUE(session->Attach(two, {}));
  EXPECT_EQ(Drain(*session, two), (Texts{"stdout:a", "stdout:b", "stdout:c"}));
}

TEST_F(SessionTest, TheLastClientToAttachTakesTheEvents) {
  auto session = Make();
  ASSERT_TRUE(session->Attach(one, {}));
  ASSERT_TRUE(session->Attach(two, {}));
  session->OnMessage("a");
  EXPECT_TRUE(Drain(*session, one).empty());
  session->Detach(one.get());  // has no effect: another client is attached
  EXPECT_TRUE(session->attached());
  EXPECT_EQ(Drain(*session, two), Texts{"stdout:a"});
}

TEST_F(SessionTest, ResumesAfterTheSeenEvents) {
  auto session = Make();
  ASSERT_TRUE(session->Attach(one, 0));
  for (const char* text : {"a", "b", "c", "d"}) session->OnMessage(text);
  Drain(*session, one);  // all were sent, but the client received only two
  session->Detach(one.get());
  ASSERT_TRUE(session->Attach(two, 2));
  EXPECT_EQ(Drain(*session, two), (Texts{"stdout:c", "stdout:d"}));
  EXPECT_FALSE(session->Attach(one, 5)) << "only four events were sent";
}

TEST_F(SessionTest, EveryClientThatAttachesGetsTheFinalEvent) {
  auto session = Make();
  ASSERT_TRUE(session->Attach(one, 0));
  session->OnExit({wasm::Exit::Kind::kFailed, "why"});
  Drain(*session, one);
  session->Detach(one.get());
  ASSERT_TRUE(session->Attach(two, {}));
  EXPECT_EQ(Drain(*session, two), Texts{"error:why"});
}

TEST_F(SessionTest, KeepsTheFinalEventForADisconnectedClient) {
  auto session = std::make_shared<Session>(Session::Options{.username = "ada", .numbered = true},
                                           limits, budget);
  ASSERT_TRUE(session->Attach(one, 0));
  session->OnMessage("a");
  Drain(*session, one);
  session->Detach(one.get());
  ASSERT_TRUE(session->Attach(two, {}));
  session->OnExit({wasm::Exit::Kind::kReturned, "done"});
  EXPECT_EQ(Drain(*session, two), Texts{"return:done"});
  session->Detach(two.get());
  ASSERT_TRUE(session->Attach(one, 1));
  EXPECT_EQ(Drain(*session, one), Texts{"return:done"});
}

TEST_F(SessionTest, LogsStderrLineByLineUpToALimit) {
  std::FILE* file = std::tmpfile();
  Log log({.file = file});
  limits.max_logged_stderr_bytes = 300;
  auto session = std::make_shared<Session>(
      Session::Options{.username = "ada", .program = "p", .capture_outputs = false, .log = &log},
      limits, budget);
  session->OnOutput(true, "one\ntw");
  session->OnOutput(false, "not this\n");
  session->OnOutput(true, "o\n");
  session->OnOutput(true, std::string(100, 'x') + "\nno more\n");
  session->OnExit({wasm::Exit::Kind::kReturned, ""});
  std::rewind(file);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  EXPECT_NE(text.find("text=\"one\""), std::string::npos) << text;
  EXPECT_NE(text.find("text=\"two\""), std::string::npos) << text;
  EXPECT_NE(text.find("limit"), std::string::npos) << text;
  EXPECT_EQ(text.find("more"), std::string::npos) << text;
  EXPECT_EQ(text.find("not this"), std::string::npos) << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 3) << text;
}

TEST_F(SessionTest, StderrOfAUserCannotFillTheDisk) {
  std::FILE* file = std::tmpfile();
  Log log({.file = file});
  const auto print = [&](const char* user, const std::string& text) {
    auto session = std::make_shared<Session>(
        Session::Options{.username = user, .program = "p", .capture_outputs = false, .log = &log},
        limits, budget);
    session->OnOutput(true, text);
    session->OnExit({wasm::Exit::Kind::kReturned, ""});
  };
  // Empty lines have records as well.
  for (int process = 0; process < 100; ++process) print("mallory", std::string(100'000, '\n'));
  const long written = std::ftell(file);
  EXPECT_LT(written, static_cast<long>(2 * Log::kUserBytes));
  print("ada", "still here\n");
  EXPECT_GT(std::ftell(file), written) << "others still write";
  std::fclose(file);
}

TEST_F(SessionTest, SendsFilesInChunks) {
  auto session = Make();
  const std::string file(kChunkBytes * 2 + 5, 'x');
  budget = std::make_shared<host::ByteBudget>(1 << 30);
  session = Make();
  session->OnFile(file);
  session->OnFile("");
  ASSERT_TRUE(session->Attach(one, {}));
  std::string joined;
  for (int i = 0; i < 3; ++i) {
    const json frame = json::from_msgpack(session->Take(one.get())->frame);
    session->Sent(one.get());
    EXPECT_EQ(frame["total_chunks"], 3);
    EXPECT_EQ(frame["file_hash"], host::Blake3Hex(file));
    const auto& bytes = frame["chunk_data"].get_binary();
    joined.append(bytes.begin(), bytes.end());
  }
  EXPECT_EQ(joined, file);
  EXPECT_EQ(Drain(*session, one), Texts{"file:0"}) << "an empty file is sent too";
}

TEST_F(SessionTest, APartlySentFileIsSentAgainToTheNextClient) {
  budget = std::make_shared<host::ByteBudget>(1 << 30);
  auto session = Make();
  session->OnFile(std::string(kChunkBytes * 2, 'x'));
  ASSERT_TRUE(session->Attach(one, {}));
  Drain(*session, one, 1);
  session->Detach(one.get());
  ASSERT_TRUE(session->Attach(two, {}));
  EXPECT_EQ(Drain(*session, two), (Texts{"file:0", "file:1"}));
}

TEST_F(SessionTest, DoesNotSplitCharacters) {
  auto session = Make();
  ASSERT_TRUE(session->Attach(one, {}));
  session->OnOutput(false, "caf\xc3");
  session->OnOutput(false, "\xa9!");
  session->OnOutput(true, "\xe2\x82");
  session->OnExit({wasm::Exit::Kind::kReturned, ""});
  EXPECT_EQ(Drain(*session, one),
            (Texts{"stdout:caf", "stdout:é!", "stderr:\xef\xbf\xbd", "return:"}));
}

TEST_F(SessionTest, WithoutCaptureOutputIsDropped) {
  auto session = Make(false);
  ASSERT_TRUE(session->Attach(one, {}));
  session->OnOutput(false, "printed");
  session->OnMessage("sent");
  EXPECT_EQ(Drain(*session, one), Texts{"stdout:sent"});
}

TEST_F(SessionTest, ASlowClientMakesTheProcessWait) {
  limits.max_ring_events = 4;
  auto session = Make();
  EXPECT_FALSE(session->Full());
  ASSERT_TRUE(session->Attach(one, {}));
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(session->Full());
    session->OnMessage("x");
  }
  EXPECT_TRUE(session->Full());
  Drain(*session, one, 1);
  EXPECT_FALSE(session->Full());
  session->OnMessage("x");
  EXPECT_TRUE(session->Full());
  session->Detach(one.get());
  EXPECT_FALSE(session->Full()) << "no client is attached";
}

TEST_F(SessionTest, AllSessionsShareABudget) {
  budget = std::make_shared<host::ByteBudget>(4096);
  auto first = Make();
  auto second = Make();
  for (int i = 0; i < 100; ++i) first->OnMessage(std::string(100, 'a'));
  for (int i = 0; i < 100; ++i) second->OnMessage(std::string(100, 'b'));
  EXPECT_LE(budget->used(), 4096u);
  first->OnExit({wasm::Exit::Kind::kReturned, "end"});
  ASSERT_TRUE(first->Attach(one, {}));
  EXPECT_EQ(Drain(*first, one).back(), "return:end");
  first.reset();
  second.reset();
  EXPECT_EQ(budget->used(), 0u);
}

TEST_F(SessionTest, OneUserDoesNotMakeAnotherLoseEvents) {
  host::SharedBudget shared(100'000, {.share_percent = 80});
  budget = shared.Of("mallory");
  auto greedy = Make();
  for (int i = 0; i < 1'000; ++i) greedy->OnMessage(std::string(1'000, 'a'));
  EXPECT_GT(shared.whole().used(), 70'000u);
  budget = shared.Of("ada");
  auto modest = Make();
  for (int i = 0; i < 10; ++i) modest->OnMessage(std::to_string(i));
  ASSERT_TRUE(modest->Attach(one, {}));
  EXPECT_EQ(Drain(*modest, one).size(), 10u);
}

TEST_F(SessionTest, AFinalEventThatDoesNotFitIsReplaced) {
  budget = std::make_shared<host::ByteBudget>(4'096);
  auto session = Make();
  session->OnExit({wasm::Exit::Kind::kReturned, std::string(100'000, 'x')});
  ASSERT_TRUE(session->Attach(one, {}));
  EXPECT_NE(Drain(*session, one).back().find("100000 bytes were dropped"), std::string::npos);
}

}  // namespace
}  // namespace pie::server
