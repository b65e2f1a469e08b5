// ModulePattern: the regular expressions by which PEFT's configurations name modules.
//
// It supports the part of Python's syntax that such expressions use: characters, `.`, classes,
// groups, `|`, `*`, `+`, `?`, `{m,n}` and the escapes `\d`, `\w` and of punctuation. The files are
// not trusted, so the expression is compiled to states that are run side by side: a match costs at
// most the length of the name times the length of the expression.
#pragma once

#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pie {

class ModulePattern {
 public:
  // Fails if the expression is malformed, too long, or uses another construct.
  static Result<ModulePattern> Compile(std::string_view pattern);

  // Does the expression match the whole name?
  bool MatchesAll(std::string_view name) const { return Match(name, false); }
  // Does it match the name, or the end of the name after a dot?
  bool MatchesEnd(std::string_view name) const { return Match(name, true); }

 private:
  friend class ModulePatternParser;
  using Characters = std::bitset<256>;
  struct State {
    enum class Kind : uint8_t { kCharacters, kSplit, kMatch };
    Kind kind = Kind::kMatch;
    Characters characters = {};
    uint32_t next = 0;   // kCharacters, kSplit
    uint32_t other = 0;  // kSplit
  };

  bool Match(std::string_view name, bool behind_dots) const;
  void Add(uint32_t state, std::vector<uint32_t>& states, std::vector<bool>& seen) const;

  std::vector<State> states_;  // the first one is where a match begins
};

}  // namespace pie
