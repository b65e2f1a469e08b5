// Script: decides what a scripted model says next, so that the logic of a program can be tested
// without a model. It is a list of answers, and a pure function of a context: the next tokens
// depend neither on the order of passes nor on forks.
//
// An answer applies to a turn of the model if the text since the model's previous turn contains
// `when`. Each turn of a conversation takes the first answer that applies and was not given earlier
// in the same conversation. An answer with `after` applies outside of turns too, directly after
// that text. Several texts in `say` are alternatives, among which the samplers choose by their
// weights.
//
// Any thread may call it. A call costs a pass over the context for each answer at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/scripted_token.h"
#include "speech/model.h"
#include "speech/turn_reader.h"

namespace pie {

struct ScriptedAnswer {
  std::string when;   // empty: any prompt
  std::string after;  // empty: at the beginning of a turn of the model
  std::vector<std::string> say;
  std::vector<double> weights;  // of `say`; empty: all texts are equally likely
  bool end_turn = true;         // end the turn after the text; false: the dummy model goes on
  bool repeat = false;          // it may be given more than once in a conversation
};

class Script {
 public:
  explicit Script(std::vector<ScriptedAnswer> answers) : answers_(std::move(answers)) {}

  // Encodes the answers for a model, which must outlive the use of Next.
  Status Use(const Model& model);
  // Replaces the answers, and forgets which were given. Call `Use` before.
  Status Replace(std::vector<ScriptedAnswer> answers);

  std::vector<ScriptedToken> Next(std::span<const uint32_t> context);

  // Indices of the answers that no pass has asked for.
  std::vector<size_t> NeverGiven() const;
  // The first prompts to which there was no answer, so that the dummy model made one up.
  std::vector<std::string> Unanswered() const;

 private:
  struct Alternative {
    std::vector<uint32_t> tokens;
    std::string text;  // of the tokens
    double weight = 1;
  };

  Status Encode();
  // Returns the tokens that answer `index` may give after `said`. Returns none if none of its
  // texts begins with `said`.
  std::vector<ScriptedToken> Continue(size_t index, std::string_view said);
  std::optional<uint32_t> NextToken(const Alternative& alternative, size_t said_bytes) const;
  std::vector<ScriptedToken> AfterText(size_t index, std::string_view text);
  bool WasGiven(size_t index, const TurnReader::Turn& turn) const;
  void NoteUnanswered(const std::string& prompt);

  mutable std::mutex mutex_;
  std::optional<TurnReader> turns_;
  const Tokenizer* tokenizer_ = nullptr;
  std::vector<ScriptedAnswer> answers_;
  std::vector<std::vector<Alternative>> alternatives_;  // of each answer
  std::vector<bool> given_;
  std::vector<std::string> unanswered_;
};

}  // namespace pie
