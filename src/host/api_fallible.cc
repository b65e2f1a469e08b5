// pie:plus/fallible: functions of the published contract, each with a result. The bridge turns an
// error of the published form into a trap, and an error of this form into an error that the guest
// can handle.
#include "host/api.h"

namespace pie::host {

Status FalliblePush(Process& process, std::string_view topic, std::string_view message) {
  return MessagingPush(process, topic, message);
}

Result<uint32_t> FalliblePull(Process& process, std::string_view topic) {
  return MessagingPull(process, topic);
}

Status FallibleBroadcast(Process& process, std::string_view topic, std::string_view message) {
  return MessagingBroadcast(process, topic, message);
}

Result<uint32_t> FallibleSubscribe(Process& process, std::string_view topic) {
  return MessagingSubscribe(process, topic);
}

Status FallibleSend(Process& process, std::string_view message, Wait& wait) {
  return SessionSend(process, message, wait);
}

Status FallibleSendFile(Process& process, std::string_view data, Wait& wait) {
  return SessionSendFile(process, data, wait);
}

Result<std::vector<uint32_t>> FallibleEncode(Process& process, uint32_t tokenizer,
                                             std::string_view text) {
  return TokenizerEncode(process, tokenizer, text);
}

Status FallibleReleaseWorkingPages(Process& process, uint32_t context, uint32_t n) {
  return ContextReleaseWorkingPages(process, context, n);
}

Status FallibleTruncateWorkingPageTokens(Process& process, uint32_t context, uint32_t n) {
  return ContextTruncateWorkingPageTokens(process, context, n);
}

Result<uint32_t> FallibleJsonGrammar(Process& process) {
  return GrammarJson(process);
}

Result<uint32_t> FallibleCreateMatcher(Process& process, uint32_t grammar, uint32_t tokenizer,
                                       Wait& wait) {
  return MatcherNew(process, grammar, tokenizer, wait);
}

Result<uint32_t> FallibleCreateToolDecoder(Process& process, uint32_t model) {
  return ToolUseCreateDecoder(process, model);
}

Result<std::optional<uint32_t>> FallibleCreateToolGrammar(Process& process, uint32_t model,
                                                          std::span<const Str> tools, Wait& wait) {
  return ToolUseFormat(process, model, tools, wait);
}

Result<uint32_t> FallibleCreateToolMatcher(Process& process, uint32_t model,
                                           std::span<const Str> tools, Wait& wait) {
  return ToolUseCreateMatcher(process, model, tools, wait);
}

}  // namespace pie::host
