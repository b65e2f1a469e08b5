// The tests of an inferlet, read from a file tests/*.toml.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/testing/expectation.h"
#include "speech/script.h"

namespace pie::cli {

// The next action of the client.
struct TestStep {
  enum class Kind { kSend, kSendFile, kExpect, kExpectStream, kExpectFile };
  Kind kind = Kind::kSend;
  std::string text;      // to send; the file's content; the text of several messages together
  Expectation expected;  // of kExpect
  int line = 0;
};

struct TestRequest {
  std::string method = "GET";
  std::string path = "/";
  std::string headers;  // lines of the form `name:value`
  std::string body;
};

struct TestCase {
  std::string name;
  int line = 0;
  nlohmann::json input = nlohmann::json::object();
  std::vector<ScriptedAnswer> answers;
  std::vector<TestStep> session;
  bool counts_messages = false;  // the session has all messages that the inferlet sends
  std::optional<Expectation> returns, error, output;
  std::optional<TestRequest> request;  // it is asked by HTTP, not run
  std::optional<uint64_t> status;
  std::optional<Expectation> response;
  std::map<std::string, std::string> files;  // in /data, by path
  std::string vocabulary;                    // a model whose tokens are used; empty: bytes
  uint64_t seed = 0;
  uint64_t timeout_secs = 60;
  bool continues = false;  // with the snapshots and files of the test before
};

Result<std::vector<TestCase>> ReadTests(const std::string& path);

}  // namespace pie::cli
