// Sends the requests that its input lists to MCP servers, as the program in Rust beside it does.
#include <inferlet/inferlet.h>

using namespace inferlet;

namespace {

Result<std::string> Ask(const std::vector<std::string>& call) {
  const auto word = [&](size_t i) { return i < call.size() ? call[i] : std::string(); };
  const std::string what = word(0);
  if (what == "servers") {
    std::string names;
    for (const std::string& name : mcp::AvailableServers()) {
      names += (names.empty() ? "" : " ") + name;
    }
    return names;
  }
  const mcp::Session server = PIE_TRY_SYNC(mcp::Connect(word(1)));
  if (what == "tools") return server.ListTools();
  if (what == "call") return server.CallTool(word(2), word(3));
  if (what == "resources") return server.ListResources();
  if (what == "read") return server.ReadResource(word(2));
  if (what == "prompts") return server.ListPrompts();
  return server.GetPrompt(word(2), word(3));
}

}  // namespace

Task<Result<Json>> Main(Json input) {
  Json::Items answers;
  for (const Json& call : PIE_TRY(input.Get<std::vector<Json>>("calls"))) {
    const auto answer = Ask(PIE_TRY(call.As<std::vector<std::string>>()));
    answers.push_back(answer ? *answer : "error: " + answer.error());
  }
  co_return Json(std::move(answers));
}

PIE_MAIN(Main)
