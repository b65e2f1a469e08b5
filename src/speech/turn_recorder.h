// TurnRecorder: makes a script of a model's answers. It is told each token that is chosen, and puts
// the model's turns together from them. Any thread may call it.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "speech/model.h"
#include "speech/script.h"
#include "speech/turn_reader.h"

namespace pie {

class TurnRecorder {
 public:
  // The model must outlive the use of Observe.
  Status Use(const Model& model);
  // `token` was chosen after `context`. Tokens outside of the model's turns are not recorded.
  void Observe(std::span<const uint32_t> context, uint32_t token);
  // Returns one answer for each prompt, in the order of the prompts. Turns with the same prompt and
  // different texts are alternatives of one answer.
  std::vector<ScriptedAnswer> Answers() const;

 private:
  struct Recorded {
    std::vector<uint32_t> context;  // the tokens before the turn
    std::string prompt;             // the text since the previous turn
    std::vector<uint32_t> said;
    bool ended = false;
  };

  mutable std::mutex mutex_;
  std::optional<TurnReader> turns_;
  std::vector<Recorded> recorded_;
};

}  // namespace pie
