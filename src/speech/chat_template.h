// ChatTemplate: chat turns as tokens, the way a model's own Jinja template writes them. A template
// renders whole conversations; here they grow turn by turn: `Extend` gives the tokens that turns
// add behind turns of known kinds, and all of them together are the tokens of the whole rendering.
// text/src/template/prefix.rs finds them. A call crosses the bridge once: turns go in, tokens come
// out.
//
// Special tokens are taken from the template's own text only, never from what a turn says. A model
// without a template speaks ChatML if its vocabulary has <|im_start|> and <|im_end|>, else plainly
// ("User: …").
//
// A loaded template is immutable and shared by threads. A call renders a few small conversations:
// about a millisecond. Templates are not trusted: their cost is limited, and a template that
// exceeds a limit gives an error.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "speech/formats.h"

namespace pie_bridge {
struct Template;
struct TurnsTurn;
enum class TurnsKind : uint8_t;
}  // namespace pie_bridge

namespace pie {

class Tokenizer;
struct ChatSource;

class ChatTemplate {
 public:
  using Tokens = std::vector<uint32_t>;
  using Turn = pie_bridge::TurnsTurn;  // speech/turn.h
  using TurnKind = pie_bridge::TurnsKind;

  // Shares the tokenizer's vocabulary. Fails if the template is broken, or cannot write a user's
  // turn. The template is told the time `now`, in seconds since 1970; the clock's if it is
  // negative.
  static Result<std::unique_ptr<ChatTemplate>> Make(const ChatSource& source,
                                                    const Tokenizer& tokenizer, int64_t now = -1);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // The tokens that `turns` add behind turns of the kinds `before`. Up to a cue they are exactly
  // what the template writes; without one they are what all continuations begin with.
  Result<Tokens> Extend(std::span<const TurnKind> before, std::span<const Turn> turns) const;

  // One turn by itself, complete: system and tools as at the beginning of a conversation, others as
  // in the middle of one.
  Result<Tokens> Alone(const Turn& turn) const;

  // Renders a whole conversation, {"messages": […], "tools": […], "cue": bool}, as it is. Nothing
  // in it is guarded: special tokens' names in a message look like the template's own.
  Result<std::string> Render(std::string_view conversation) const;

  const pie_bridge::Template* raw() const { return raw_; }
  const Tokens& seal() const { return seal_; }  // closes the model's turn
  const Tokens& stop_tokens() const { return stop_tokens_; }
  const std::optional<ReasoningFormat>& reasoning() const { return reasoning_; }
  const std::optional<CallFormat>& calls() const { return calls_; }

 private:
  explicit ChatTemplate(pie_bridge::Template* raw);

  pie_bridge::Template* raw_;
  Tokens seal_;
  Tokens stop_tokens_;
  std::optional<ReasoningFormat> reasoning_;
  std::optional<CallFormat> calls_;
};

}  // namespace pie
