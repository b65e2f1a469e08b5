#include "server/mcp_relay.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace pie::server {
namespace {

using nlohmann::json;

class McpRelayTest : public ::testing::Test {
 protected:
  using Pending = std::shared_ptr<host::Pending<host::McpAnswer>>;

  McpRelayTest() {
    EXPECT_TRUE(relay.Register("oven", [this] { ++woken; }));
  }
  Result<Pending> Ask(std::string_view server = "oven", std::string_view params = "{}") {
    return relay.Ask(
        {.process_id = "p", .server = server, .method = "tools/list", .params = params});
  }
  // The request that is sent next.
  json Sent() {
    const auto frame = relay.Next();
    return frame ? json::from_msgpack(*frame) : json();
  }
  static host::McpError ErrorOf(const Pending& pending) {
    EXPECT_TRUE(pending->ready());
    auto answer = pending->Take();
    EXPECT_TRUE(answer && !*answer);
    return answer && !*answer ? answer->error() : host::McpError{};
  }

  Limits limits;
  McpRelay relay{limits};
  int woken = 0;
};

TEST_F(McpRelayTest, ARequestIsSentAndAnswered) {
  const auto pending = Ask();
  ASSERT_TRUE(pending);
  EXPECT_EQ(woken, 1);
  const json sent = Sent();
  EXPECT_EQ(sent["type"], "mcp_request");
  EXPECT_EQ(sent["server_name"], "oven");
  EXPECT_EQ(sent["method"], "tools/list");
  EXPECT_TRUE(Sent().is_null());
  EXPECT_FALSE((*pending)->ready());
  relay.Answer(sent["corr_id"].get<uint32_t>() + 1, true, "{}");  // an answer to no request
  EXPECT_FALSE((*pending)->ready());
  relay.Answer(sent["corr_id"], true, R"({"tools":[]})");
  ASSERT_TRUE((*pending)->ready());
  EXPECT_EQ(**(*pending)->Take(), R"({"tools":[]})");
  relay.Answer(sent["corr_id"], true, "{}");  // a second answer is dropped
}

TEST_F(McpRelayTest, AnErrorThatIsNestedDeeplyIsText) {
  const auto pending = Ask();
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  relay.Answer(Sent()["corr_id"], false, R"({"message": "no", "data": )" + deep + "}");
  const host::McpError error = ErrorOf(*pending);
  EXPECT_EQ(error.code, host::kMcpUnreachable);
  EXPECT_LE(error.message.size(), 64u << 10);
}

TEST_F(McpRelayTest, ErrorsOfAClientMayBeJsonOrText) {
  const auto first = Ask();
  relay.Answer(Sent()["corr_id"], false, R"({"code": 7, "message": "no", "data": [1]})");
  const auto error = ErrorOf(*first);
  EXPECT_EQ(error.code, 7);
  EXPECT_EQ(error.message, "no");
  EXPECT_EQ(error.data, "[1]");
  const auto second = Ask();
  relay.Answer(Sent()["corr_id"], false, "out of flour");
  EXPECT_EQ(ErrorOf(*second).message, "out of flour");
}

TEST_F(McpRelayTest, LongErrorsOfAClientAreNotParsed) {
  const auto pending = Ask();
  const std::string data(300'000, 'x');
  relay.Answer(Sent()["corr_id"], false,
               R"({"code": 7, "message": "no", "data": ")" + data + "\"}");
  const auto error = ErrorOf(*pending);
  EXPECT_EQ(error.code, host::kMcpUnreachable);
  EXPECT_NE(error.message.find("at most 256 KiB"), std::string::npos) << error.message;
}

TEST_F(McpRelayTest, ARequestTimesOut) {
  const auto pending = Ask();
  const auto now = std::chrono::steady_clock::now();
  relay.Expire(now);
  EXPECT_FALSE((*pending)->ready());
  relay.Expire(now + std::chrono::seconds(limits.mcp_timeout_secs + 1));
  EXPECT_EQ(ErrorOf(*pending).code, host::kMcpTimeout);
  EXPECT_TRUE(Sent().is_null());  // the request was never sent, and will not be
}

TEST_F(McpRelayTest, ARequestOfAProcessThatIsGoneIsForgotten) {
  for (size_t i = 0; i < limits.max_mcp_requests; ++i) ASSERT_TRUE(Ask());  // dropped at once
  EXPECT_FALSE(Ask());
  relay.Expire(std::chrono::steady_clock::now());
  EXPECT_TRUE(Ask());
}

TEST_F(McpRelayTest, RequestsThatNobodyReadsDoNotPileUp) {
  const auto budget = std::make_shared<host::ByteBudget>(1 << 20);
  relay.SetBudget(budget);
  const std::string params(100'000, ' ');
  for (int round = 0; round < 100; ++round) {
    EXPECT_TRUE(Ask("oven", params));  // its process is gone at once
    relay.Expire(std::chrono::steady_clock::now());
    EXPECT_EQ(budget->used(), 0u);
  }
  std::vector<Result<Pending>> held;
  for (int i = 0; i < 20; ++i) held.push_back(Ask("oven", params));
  EXPECT_TRUE(held.front());
  EXPECT_FALSE(held.back()) << "a request is charged until it is sent";
  EXPECT_FALSE(Sent().is_null());
  EXPECT_TRUE(Ask("oven", params));
}

TEST_F(McpRelayTest, AClientThatLeavesEndsItsRequests) {
  const auto pending = Ask();
  relay.Close();
  EXPECT_EQ(ErrorOf(*pending).code, host::kMcpUnreachable);
  EXPECT_TRUE(relay.Names().empty());
  const auto later = Ask();
  EXPECT_EQ(ErrorOf(*later).code, host::kMcpServerNotFound);
}

TEST_F(McpRelayTest, SizesAndNumbersAreLimited) {
  EXPECT_FALSE(Ask("oven", std::string(limits.max_mcp_request_bytes + 1, ' ')));
  const auto pending = Ask();
  relay.Answer(Sent()["corr_id"], true, std::string(limits.max_mcp_result_bytes + 1, ' '));
  EXPECT_NE(ErrorOf(*pending).message.find("MiB"), std::string::npos);
  for (size_t i = 1; i < limits.max_mcp_servers; ++i) {
    EXPECT_TRUE(relay.Register(fmt::format("s{}", i), [] {}));
  }
  EXPECT_FALSE(relay.Register("one more", [] {}));
  EXPECT_TRUE(relay.Register("oven", [] {}));  // it is there already
  EXPECT_FALSE(relay.Register("", [] {}));
}

}  // namespace
}  // namespace pie::server
