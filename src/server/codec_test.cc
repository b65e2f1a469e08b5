#include "server/codec.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/random.h"

namespace pie::server {
namespace {

using nlohmann::json;

// The oracle: MessagePack of another library.
std::string Pack(const json& value) {
  const auto bytes = json::to_msgpack(value);
  return {bytes.begin(), bytes.end()};
}
json Unpack(const std::string& frame) {
  return json::from_msgpack(frame);
}
json Binary(std::string_view bytes) {
  return json::binary(std::vector<uint8_t>(bytes.begin(), bytes.end()));
}

// One valid message of every type, in the order of kMessageTypes.
std::vector<json> AllMessages() {
  return {
      {{"type", "auth_identify"}, {"corr_id", 1}, {"username", "ada"}},
      {{"type", "auth_prove"}, {"corr_id", 2}, {"signature", "c2ln"}},
      {{"type", "auth_by_token"}, {"corr_id", 3}, {"token", "t"}},
      {{"type", "check_program"}, {"corr_id", 4}, {"name", "hello"}, {"version", "0.1.0"}},
      {{"type", "query"}, {"corr_id", 5}, {"subject", "model_status"}, {"record", ""}},
      {{"type", "add_program"},
       {"corr_id", 6},
       {"program_hash", "ff"},
       {"manifest", "[package]"},
       {"force_overwrite", false},
       {"chunk_index", 0},
       {"total_chunks", 1},
       {"chunk_data", Binary("\0asm")}},
      {{"type", "launch_process"},
       {"corr_id", 7},
       {"inferlet", "hello@0.1.0"},
       {"input", "{}"},
       {"capture_outputs", true},
       {"token_budget", 1000}},
      {{"type", "launch_daemon"}, {"corr_id", 8}, {"port", 80}, {"inferlet", "a"}, {"input", ""}},
      {{"type", "attach_process"}, {"corr_id", 9}, {"process_id", "p"}},
      {{"type", "terminate_process"}, {"corr_id", 10}, {"process_id", "p"}},
      {{"type", "signal_process"}, {"process_id", "p"}, {"message", "stop"}},
      {{"type", "transfer_file"},
       {"process_id", "p"},
       {"file_hash", "aa"},
       {"chunk_index", 0},
       {"total_chunks", 1},
       {"chunk_data", Binary("x")}},
      {{"type", "list_processes"}, {"corr_id", 11}},
      {{"type", "ping"}, {"corr_id", 4294967295}},
      {{"type", "register_mcp_server"},
       {"corr_id", 12},
       {"name", "files"},
       {"transport", "stdio"},
       {"command", "npx"},
       {"args", {"-y", "server"}}},
      {{"type", "mcp_response"}, {"corr_id", 13}, {"ok", true}, {"result", "{}"}},
      {{"type", "restart_daemon"}, {"corr_id", 14}, {"process_id", "p"}},
  };
}

TEST(Codec, ReadsEveryType) {
  const auto messages = AllMessages();
  ASSERT_EQ(messages.size(), kMessageTypes.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    EXPECT_EQ(messages[i]["type"], kMessageTypes[i].tag);
    const std::string frame = Pack(messages[i]);
    auto message = Decode(frame, {});
    ASSERT_TRUE(message) << message.error().text;
    EXPECT_EQ(message->index(), i);
  }
}

TEST(Codec, ReadsTheFieldsOfMessages) {
  const std::string launch = Pack(AllMessages()[6]);
  auto message = Decode(launch, {});
  const auto& process = std::get<LaunchProcess>(*message);
  EXPECT_EQ(process.corr_id, 7u);
  EXPECT_EQ(process.inferlet, "hello@0.1.0");
  EXPECT_EQ(process.input, "{}");
  EXPECT_TRUE(process.capture_outputs);
  EXPECT_EQ(process.token_budget, 1000u);
  EXPECT_FALSE(process.seen);

  const std::string add = Pack(AllMessages()[5]);
  auto added = Decode(add, {});
  EXPECT_EQ(std::get<AddProgram>(*added).chunk.data, "\0asm");
  const std::string mcp = Pack(AllMessages()[14]);
  auto server = Decode(mcp, {});
  EXPECT_EQ(std::get<RegisterMcpServer>(*server).args,
            (std::vector<std::string_view>{"-y", "server"}));
}

TEST(Codec, ErrorsNameTheMissingField) {
  for (const json& whole : AllMessages()) {
    for (const auto& [key, value] : whole.items()) {
      if (key == "type" || key == "token_budget" || key == "record" || key == "command" ||
          key == "args") {
        continue;
      }
      json cut = whole;
      cut.erase(key);
      const std::string frame = Pack(cut);
      auto message = Decode(frame, {});
      ASSERT_FALSE(message) << cut;
      EXPECT_NE(message.error().text.find("'" + key + "' is missing"), std::string::npos)
          << message.error().text;
    }
  }
}

TEST(Codec, ErrorsNameTheFieldOfTheWrongType) {
  for (const json& whole : AllMessages()) {
    for (const auto& [key, value] : whole.items()) {
      if (key == "type") continue;
      json wrong = whole;
      wrong[key] = -1.5;
      const std::string frame = Pack(wrong);
      auto message = Decode(frame, {});
      ASSERT_FALSE(message) << wrong;
      EXPECT_NE(message.error().text.find("'" + key + "' must be"), std::string::npos)
          << message.error().text;
      // The error can be answered unless the corr_id itself is wrong.
      EXPECT_EQ(message.error().corr_id.has_value(), key != "corr_id" && whole.contains("corr_id"));
    }
  }
}

TEST(Codec, RefusesLongNames) {
  const std::set<std::string> long_texts = {"manifest", "input", "message", "result"};
  const Limits limits;
  for (const json& whole : AllMessages()) {
    for (const auto& [key, value] : whole.items()) {
      if (!value.is_string() || key == "type") continue;
      json message = whole;
      message[key] = std::string(limits.max_name_bytes + 1, 'x');
      const std::string frame = Pack(message);
      const auto decoded = Decode(frame, limits);
      EXPECT_EQ(decoded.has_value(), long_texts.contains(key)) << whole["type"] << " " << key;
      if (decoded) continue;
      EXPECT_NE(decoded.error().text.find("at most 4096"), std::string::npos)
          << decoded.error().text;
      EXPECT_LT(decoded.error().text.size(), 200u) << "the error does not repeat the client's text";
    }
  }
}

TEST(Codec, RefusesNumbersOutOfRange) {
  for (const json& bad : {json(-1), json(4294967296), json(1.0), json("1"), json(true)}) {
    const std::string frame = Pack({{"type", "ping"}, {"corr_id", bad}});
    EXPECT_FALSE(Decode(frame, {})) << bad;
  }
}

TEST(Codec, RefusesFramesThatAreNotMaps) {
  for (const json& bad : {json(7), json("ping"), json::array({1, 2}), json(nullptr), json(true)}) {
    const std::string frame = Pack(bad);
    auto message = Decode(frame, {});
    ASSERT_FALSE(message);
    EXPECT_FALSE(message.error().corr_id);
  }
  EXPECT_FALSE(Decode("", {}));
}

TEST(Codec, HandlesUnusualMaps) {
  const std::string nested = Pack({{"type", "ping"}, {"corr_id", 1}, {"x", {{"a", 1}}}});
  EXPECT_FALSE(Decode(nested, {}));
  const std::string unknown = Pack({{"type", "dance"}, {"corr_id", 1}});
  EXPECT_EQ(Decode(unknown, {}).error().corr_id, 1u);
  const std::string more = Pack({{"type", "ping"}, {"corr_id", 1}, {"later", "version"}});
  EXPECT_TRUE(Decode(more, {})) << "fields of later versions are ignored";
  const std::string behind = Pack({{"type", "ping"}, {"corr_id", 1}}) + "x";
  EXPECT_FALSE(Decode(behind, {}));
  // {"type": "ping", "corr_id": 1, "corr_id": 2}
  const std::string twice =
      "\x83\xa4type\xa4ping\xa7"
      "corr_id\x01\xa7"
      "corr_id\x02";
  EXPECT_NE(Decode(twice, {}).error().text.find("duplicate field 'corr_id'"), std::string::npos);
}

TEST(Codec, RefusesLengthsBeyondTheFrame) {
  // Maps, lists, texts and bytes that announce 2^32 - 1 entries.
  for (const char* head : {"\xdf", "\xdd", "\xdb", "\xc6"}) {
    const std::string frame = std::string(head) + "\xff\xff\xff\xff";
    EXPECT_FALSE(Decode(frame, {}));
    EXPECT_FALSE(Decode("\x81\xa4type" + frame, {}));
  }
  // Nested lists.
  EXPECT_FALSE(
      Decode("\x81\xa1"
             "a" +
                 std::string(1'000'000, '\x91'),
             {}));
  json many = {{"type", "ping"}, {"corr_id", 1}};
  for (int i = 0; i < 40; ++i) many["x" + std::to_string(i)] = 1;
  const std::string frame = Pack(many);
  EXPECT_FALSE(Decode(frame, {}));
}

TEST(Codec, RefusesEveryTruncation) {
  for (const json& whole : AllMessages()) {
    const std::string frame = Pack(whole);
    for (size_t size = 0; size < frame.size(); ++size) {
      EXPECT_FALSE(Decode(frame.substr(0, size), {})) << whole << " cut to " << size;
    }
  }
}

TEST(Codec, SurvivesMutatedFrames) {
  // A short run of what the fuzzer does for longer.
  std::vector<std::string> seeds;
  for (const json& whole : AllMessages()) seeds.push_back(Pack(whole));
  const CounterRng random{7};
  for (uint64_t i = 0; i < 200'000; ++i) {
    std::string frame = seeds[random.Bits(i * 4) % seeds.size()];
    for (uint64_t flips = random.Bits(i * 4 + 1) % 4; flips < 4; ++flips) {
      const uint64_t bits = random.Bits(i * 4 + 2 + flips * 1'000'003);
      frame[bits % frame.size()] = static_cast<char>(bits >> 32);
    }
    FuzzDecode(frame);
  }
}

TEST(Codec, EncodesResponsesAndEvents) {
  EXPECT_EQ(Unpack(EncodeResponse(7, true, "Pong")),
            (json{{"type", "response"}, {"corr_id", 7}, {"ok", true}, {"result", "Pong"}}));
  EXPECT_EQ(
      Unpack(EncodeEvent("p-1", EventKind::kStdout, "hé")),
      (json{
          {"type", "process_event"}, {"process_id", "p-1"}, {"event", "stdout"}, {"value", "hé"}}));
  EXPECT_EQ(Unpack(EncodeEvent("p", EventKind::kReturn, "", 9))["seq"], 9);
  EXPECT_EQ(Unpack(EncodeEvent("p", EventKind::kError, "x"))["event"], "error");
  const json file = Unpack(EncodeFileChunk("p", {"ab", 1, 3, std::string_view("\0\xff", 2)}));
  EXPECT_EQ(file["type"], "file");
  EXPECT_EQ(file["file_hash"], "ab");
  EXPECT_EQ(file["chunk_index"], 1);
  EXPECT_EQ(file["total_chunks"], 3);
  EXPECT_EQ(file["chunk_data"], Binary(std::string_view("\0\xff", 2)));
}

TEST(Codec, ResponsesAreValidUtf8) {
  EXPECT_EQ(Unpack(EncodeResponse(1, false, "a\xff"))["result"], "a\xef\xbf\xbd");
}

}  // namespace
}  // namespace pie::server
