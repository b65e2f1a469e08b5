// Grammar: the form that a text must have. Matcher: follows one text token by token, and says which
// tokens may come next. The text crate does the work (text/src/grammar/), behind the bridge.
//
// A Grammar is a checked source. It is compiled for a vocabulary, which keeps compiled grammars:
// the first Matcher of a grammar takes up to seconds, the others microseconds. Sources are not
// trusted. A source that is wrong, too large or too slow gives an error that names the place, and a
// JSON Schema keyword that is not enforced is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "speech/model.h"

namespace pie_bridge {
struct Grammar;
struct GrammarVocabulary;
struct Matcher;
}  // namespace pie_bridge

namespace pie {

// Immutable, shared by threads.
class Grammar {
 public:
  static Result<Grammar> FromJsonSchema(std::string_view schema);
  static Result<Grammar> Json();  // any JSON document
  static Result<Grammar> FromRegex(std::string_view pattern);
  // Lark or GBNF. Lark is compiled as far as that needs no vocabulary, which takes up to seconds;
  // the compilations of a user wait for one another.
  static Result<Grammar> FromEbnf(std::string_view source, std::string_view user = {});
  // Makes the grammar of calls of these tools (JSON schemas) in the model's own form, beginning
  // with the mark of a call. Returns none if that form is unknown, or if there are no tools.
  static Result<std::optional<Grammar>> OfCalls(const ChatTemplate& chat,
                                                std::span<const std::string> tools);

  std::string_view source() const;
  size_t bytes() const;  // the memory that it takes
  const pie_bridge::Grammar* raw() const { return raw_.get(); }

 private:
  explicit Grammar(pie_bridge::Grammar* raw);
  static Result<Grammar> Make(int kind, std::string_view source, std::string_view user = {});

  std::shared_ptr<pie_bridge::Grammar> raw_;
};

// A model's tokenizer as grammars see it. Immutable for its users, shared by threads.
class GrammarVocabulary {
 public:
  explicit GrammarVocabulary(const Model& model);

  // Compiles the grammar, unless it is compiled already. Takes up to seconds, so no step or device
  // thread may call it.
  Status Compile(const Grammar& grammar) const;
  const pie_bridge::GrammarVocabulary* raw() const { return raw_.get(); }

 private:
  std::shared_ptr<pie_bridge::GrammarVocabulary> raw_;
};

// One text that follows a grammar. One owner, one thread at a time.
class Matcher {
 public:
  // Compiles the grammar if it is not compiled yet, for `user`. When too many compiled grammars are
  // kept, one of the user with the most grammars is dropped.
  static Result<Matcher> Make(const GrammarVocabulary& vocabulary, const Grammar& grammar,
                              std::string_view user = "");
  // Makes a matcher of a grammar that is compiled already. Returns none if it is not, and never
  // compiles.
  static std::optional<Matcher> OfCompiled(const GrammarVocabulary& vocabulary,
                                           const Grammar& grammar);

  // Advances by all tokens, or by none. Fails if one of them does not fit.
  Status Accept(std::span<const uint32_t> tokens);
  // Returns the tokens that may come next, as runs (base/brle.h) or as bits, the lowest first. If
  // the text is complete, these are the tokens that end a turn.
  Result<std::vector<uint32_t>> MaskRuns();
  Result<std::vector<uint32_t>> MaskBits();
  // Returns the tokens that must come next, as the tokenizer writes them; none if there is a
  // choice.
  std::vector<uint32_t> ForcedTokens();
  // Takes back the last tokens. Fails if the text has fewer.
  Status Rollback(size_t tokens);
  // The memory that the text takes, in bytes. It grows with the tokens that are accepted.
  size_t bytes() const;
  // The compiled grammar, which all its matchers share and keep alive: a number of its own, and the
  // memory that it takes, in bytes.
  size_t compiled_id() const;
  size_t compiled_bytes() const;
  // Whether nothing may follow, or the last token ended a turn.
  bool is_terminated() const;
  void Reset();
  Result<Matcher> Fork() const;

 private:
  struct Free {
    void operator()(pie_bridge::Matcher* raw) const;
  };
  explicit Matcher(pie_bridge::Matcher* raw) : raw_(raw) {}

  std::unique_ptr<pie_bridge::Matcher, Free> raw_;
};

}  // namespace pie
