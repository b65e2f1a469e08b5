// ChatTemplate: chat turns as tokens, the way a model's own Jinja template writes them. A template
// renders whole conversations, but a context grows turn by turn. `Extend` returns the tokens that
// turns add after turns of known kinds; the results of all calls together are the tokens of the
// whole rendering (text/src/template/prefix.rs). A call crosses the bridge once: turns go in,
// tokens come out.
//
// Special tokens are taken from the template's own text only, never from a turn's content. A model
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
  // turn. The template sees the time `now`, in seconds since 1970, or the clock's if `now` is
  // negative.
  static Result<std::unique_ptr<ChatTemplate>> Make(const ChatSource& source,
                                                    const Tokenizer& tokenizer, int64_t now = -1);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // Variables that the template leaves to its user, such as enable_thinking: see SetOption.
  struct Options {
    std::string json;                   // an object; empty without options
    std::optional<bool> begins_inside;  // of the thoughts; none: as reasoning() says
  };

  // Returns `options` with an option set to `value`, which is JSON, or removed. Fails if the option
  // is not allowed, or if the template refuses the value.
  Result<Options> SetOption(const Options& options, std::string_view name,
                            std::optional<std::string_view> value) const;

  // Returns the tokens that `turns` add after turns of the kinds `before`. If `turns` end with a
  // cue, they are exactly what the template writes; otherwise they are the part that all
  // continuations share.
  Result<Tokens> Extend(std::span<const TurnKind> before, std::span<const Turn> turns,
                        const Options& options = {}) const;

  // Returns the tokens of one complete turn: system and tools as at the beginning of a
  // conversation, other turns as in the middle of one.
  Result<Tokens> Alone(const Turn& turn, const Options& options = {}) const;

  // Renders a whole conversation, {"messages": […], "tools": […], "cue": bool, "options": {…}}, as
  // it is. Names of special tokens in a message become special tokens, as if the template had
  // written them.
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
