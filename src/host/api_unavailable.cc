// Interfaces whose engine side does not exist in this build: grammars, adapters, zo, MCP. Each says
// so; none pretends.
#include "host/api.h"

namespace pie::host {
namespace {

bool Refuse(void* guest, Out* out, std::string_view what) {
  return Answer(guest, out,
                [&](Process&) -> Status { return Fail(Code::kUnavailable, "{}", what); });
}

constexpr std::string_view kNoGrammar =
    "grammar: this engine has no grammar compiler yet; use a custom constraint or a logit mask";
constexpr std::string_view kNoAdapter =
    "adapter: this model's backend applies no LoRA adapters yet";
constexpr std::string_view kNoZo =
    "zo: needs adapters, which this model's backend does not apply yet";
constexpr std::string_view kNoMcp = "mcp: no server is registered; this engine relays none yet";
constexpr int kMcpServerNotFound = -32001;

}  // namespace

bool GrammarFromText(void* guest, Str, uint32_t*, Out* out) {
  return Refuse(guest, out, kNoGrammar);
}
bool GrammarJson(void* guest, uint32_t*, Out* out) {
  return Refuse(guest, out, kNoGrammar);
}
bool GrammarToString(void* guest, uint32_t, Out* out) {
  return Refuse(guest, out, kNoGrammar);
}
bool MatcherNew(void* guest, uint32_t, uint32_t, uint32_t*, Out* out) {
  return Refuse(guest, out, kNoGrammar);
}
bool MatcherAcceptTokens(void* guest, uint32_t, Words, Out* out) {
  return Refuse(guest, out, kNoGrammar);
}
bool MatcherNextTokenLogitMask(void* guest, uint32_t, Out* out) {
  return Refuse(guest, out, kNoGrammar);
}
bool MatcherIsTerminated(void* guest, uint32_t, bool*, Out* out) {
  return Refuse(guest, out, kNoGrammar);
}
bool MatcherReset(void* guest, uint32_t, Out* out) {
  return Refuse(guest, out, kNoGrammar);
}

bool PassAdapter(void* guest, uint32_t, uint32_t, Out* out) {
  return Refuse(guest, out, kNoAdapter);
}
bool AdapterCreate(void* guest, uint32_t, Str, uint32_t*, Out* out) {
  return Refuse(guest, out, kNoAdapter);
}
bool AdapterOpen(void* guest, uint32_t, Str, uint32_t*, bool* found, Out* out) {
  return Answer(guest, out, [&](Process&) -> Status {
    *found = false;  // there are none
    return {};
  });
}
bool AdapterDestroy(void* guest, uint32_t, Out* out) {
  return Refuse(guest, out, kNoAdapter);
}
bool AdapterFork(void* guest, uint32_t, Str, uint32_t*, Out* out) {
  return Refuse(guest, out, kNoAdapter);
}
bool AdapterFile(void* guest, uint32_t, Str, Out* out) {
  return Refuse(guest, out, kNoAdapter);
}
bool ZoAdapterSeed(void* guest, uint32_t, int64_t, Out* out) {
  return Refuse(guest, out, kNoZo);
}
bool ZoInitialize(void* guest, uint32_t, uint32_t, float, uint32_t, float, float, Out* out) {
  return Refuse(guest, out, kNoZo);
}
bool ZoUpdate(void* guest, uint32_t, const float*, const int64_t*, size_t, float, Out* out) {
  return Refuse(guest, out, kNoZo);
}

bool McpAvailableServers(void* guest, Out* out) {
  return Answer(guest, out, [](Process&) -> Status { return {}; });
}
bool McpConnect(void* guest, Str, uint32_t*, int32_t* code, Out* out) {
  *code = kMcpServerNotFound;
  return Refuse(guest, out, kNoMcp);
}
bool McpCall(void* guest, uint32_t, Str, Str, Str, int32_t* code, Out* out) {
  *code = kMcpServerNotFound;
  return Refuse(guest, out, kNoMcp);
}

}  // namespace pie::host
