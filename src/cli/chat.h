// pie chat: a conversation in the terminal, with the inferlet `inferlets/chat`.
#pragma once

#include <optional>
#include <string>

namespace pie::cli {

struct ChatOptions {
  std::string config;
  std::string model;   // empty: the default model
  std::string system;  // the system message
  std::optional<double> temperature;
  std::string dummy;   // --dummy: empty if it is not given (config.h)
  bool speed = false;  // show tokens/s after each answer
};

// Returns an exit code.
int Chat(const ChatOptions& options);

}  // namespace pie::cli
