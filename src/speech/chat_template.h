// ChatTemplate: chat turns as tokens, the way a model's own Jinja template writes them. A template
// renders whole conversations; here they grow turn by turn: `Extend` gives what turns add behind
// turns of known kinds, and the pieces put together are the whole rendering. How that is found is
// in text/src/template/prefix.rs.
//
// Special tokens are taken from the template's own text only, never from what a turn says.
//
// Immutable after loading, shared by threads. A call renders a few small conversations: about a
// millisecond. Templates are not trusted: what they may cost has limits, and beyond them is an
// error.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pie {

class Tokenizer;
struct ChatSource;

enum class TurnKind : uint8_t {
  kSystem,
  kUser,
  kAssistant,
  kTools,   // what the model may call
  kAnswer,  // of a tool
  kCue,     // where the model's own turn begins
};

// Borrows its texts.
struct Turn {
  TurnKind kind = TurnKind::kCue;
  std::string_view text;                // what is said; an answer's value
  std::string_view name = {};           // the tool that answers
  std::vector<std::string_view> tools;  // JSON schemas
};

// The model's thoughts stand between these texts.
struct ReasoningFormat {
  std::string open;
  std::string close;
  bool begins_inside = false;  // the cue has already opened it
};

// How the model writes a call. An empty `open`: the call is the whole turn.
struct CallFormat {
  enum class Form : uint8_t {
    kObject,  // {"name": …, "arguments": …}, or a list of them; no name_key: {name: arguments}
    kNamed,   // a name, anything, the arguments as a JSON object
    kTagged,  // a name, then `first` key `middle` value `last` for each argument
    kPython,  // [name(key=value, …), …]
  };
  Form form = Form::kObject;
  std::string open;
  std::string close;
  std::string name_key;
  std::string arguments_key;
  std::string first;
  std::string middle;
  std::string last;
};

class ChatTemplate {
 public:
  using Tokens = std::vector<uint32_t>;
  struct Options {
    int64_t now = -1;  // the moment that the template is told, in seconds; the clock's if < 0
    bool plain_text = false;  // the tokenizer never makes special tokens of text
  };

  // Fails if the template is broken, or cannot write a user's turn. `tokenizer` outlives it.
  static Result<std::unique_ptr<ChatTemplate>> Make(const ChatSource& source,
                                                    const Tokenizer& tokenizer, Options options);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // What the template adds for `turns` behind turns of the kinds `before`. Up to a cue it is
  // exactly what the template writes; without one it is what all continuations begin with.
  Result<Tokens> Extend(std::span<const TurnKind> before, std::span<const Turn> turns) const;

  // One turn by itself, complete: system and tools as at the beginning of a conversation, others as
  // in the middle of one.
  Result<Tokens> Alone(const Turn& turn) const;

  // A whole rendering of messages as they are, {"messages": […], "tools": […], "cue": bool}, as
  // text. Nothing in it is guarded: special tokens in what is said look like the template's own.
  Result<std::string> Render(std::string_view conversation) const;

  const Tokens& seal() const { return seal_; }  // closes the model's turn
  const Tokens& stop_tokens() const { return stop_tokens_; }
  const std::optional<ReasoningFormat>& reasoning() const { return reasoning_; }
  const std::optional<CallFormat>& calls() const { return calls_; }

 private:
  class Raw;
  explicit ChatTemplate(std::unique_ptr<Raw> raw);

  std::unique_ptr<Raw> raw_;
  Tokens seal_;
  Tokens stop_tokens_;
  std::optional<ReasoningFormat> reasoning_;
  std::optional<CallFormat> calls_;
};

// What `source` says, for `tokenizer`, which outlives it. A model without a template speaks ChatML
// if its vocabulary has <|im_start|> and <|im_end|>, else plainly ("User: …").
Result<std::unique_ptr<ChatTemplate>> MakeChatTemplate(const ChatSource& source,
                                                       const Tokenizer& tokenizer);

}  // namespace pie
