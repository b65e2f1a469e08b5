#include "model/adapter/module_pattern.h"

#include <cctype>
#include <optional>
#include <utility>

#include "model/limits.h"
#include "model/shown.h"

namespace pie {

// Parses an expression into states. Each function appends the states of a part of the expression
// and returns where the part begins; `next` is where it goes on. Parts are made back to front, so
// that `next` is always there already: a part that is repeated is parsed once for each repetition.
class ModulePatternParser {
 public:
  explicit ModulePatternParser(std::string_view text) : text_(text) {}

  Result<ModulePattern> Run() {
    const auto tree = PIE_TRY(Alternatives(0));
    if (at_ != text_.size()) return Fail(Code::kInvalid, "a ')' has no '('");
    ModulePattern pattern;
    pattern.states_.push_back({});  // replaced below: a match begins at the first state
    pattern.states_.push_back({.kind = Kind::kMatch});
    const uint32_t begin = PIE_TRY(Emit(pattern, tree, 1));
    pattern.states_[0] = {.kind = Kind::kSplit, .next = begin, .other = begin};
    return pattern;
  }

 private:
  using Kind = ModulePattern::State::Kind;
  using Characters = ModulePattern::Characters;
  static constexpr uint32_t kForEver = UINT32_MAX;

  struct Node {
    enum class Kind : uint8_t { kCharacters, kSequence, kAlternatives, kRepeat };
    Node::Kind kind = Node::Kind::kSequence;
    Characters characters = {};
    std::vector<Node> parts = {};  // one for kRepeat
    uint32_t least = 0, most = 0;  // kRepeat
  };

  bool AtEnd() const { return at_ == text_.size(); }
  bool Next(char c) {
    if (AtEnd() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result<Node> Alternatives(uint32_t depth) {
    if (depth > limits::kModulePatternDepth) {
      return Fail(Code::kInvalid, "its groups are nested deeper than {}",
                  limits::kModulePatternDepth);
    }
    Node node{.kind = Node::Kind::kAlternatives};
    do {
      node.parts.push_back(PIE_TRY(SequenceOf(depth)));
    } while (Next('|'));
    return node;
  }

  Result<Node> SequenceOf(uint32_t depth) {
    Node node;
    while (!AtEnd() && text_[at_] != '|' && text_[at_] != ')') {
      Node atom = PIE_TRY(Atom(depth));
      node.parts.push_back(PIE_TRY(Repeated(std::move(atom))));
    }
    return node;
  }

  Result<Node> Repeated(Node atom) {
    uint32_t least = 1;
    uint32_t most = 1;
    if (Next('*')) {
      std::tie(least, most) = std::pair(0U, kForEver);
    } else if (Next('+')) {
      most = kForEver;
    } else if (Next('?')) {
      least = 0;
    } else if (Next('{')) {
      const auto first = Number();
      const bool comma = Next(',');
      const auto last = Number();
      if (!first || !Next('}') || (last && *last < *first)) {
        return Fail(Code::kInvalid, "a repetition must look like {{2}}, {{2,}} or {{2,5}}");
      }
      least = *first;
      most = !comma ? least : last.value_or(kForEver);
    } else {
      return atom;
    }
    Next('?');  // how greedy a repetition is does not change whether it matches
    Node node{.kind = Node::Kind::kRepeat, .least = least, .most = most};
    node.parts.push_back(std::move(atom));
    return node;
  }

  std::optional<uint32_t> Number() {
    const size_t begin = at_;
    uint32_t number = 0;
    while (!AtEnd() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 &&
           at_ - begin < 4) {
      number = number * 10 + static_cast<uint32_t>(text_[at_++] - '0');
    }
    return at_ == begin ? std::nullopt : std::optional(number);
  }

  Result<Node> Atom(uint32_t depth) {
    const char c = text_[at_++];
    if (c == '(') {
      if (Next('?') && !Next(':')) {
        return Fail(Code::kInvalid, "groups that begin with '(?' are not supported, except '(?:'");
      }
      Node group = PIE_TRY(Alternatives(depth + 1));
      if (!Next(')')) return Fail(Code::kInvalid, "a '(' has no ')'");
      return group;
    }
    Node node{.kind = Node::Kind::kCharacters};
    if (c == '.') {
      node.characters.set();
    } else if (c == '\\') {
      node.characters = PIE_TRY(Escape());
    } else if (c == '[') {
      node.characters = PIE_TRY(Class());
    } else if (c == '^' || c == '$') {  // a match covers the whole name anyway
      return Node{};
    } else if (c == '*' || c == '+' || c == '?') {
      return Fail(Code::kInvalid, "a '{}' follows nothing that it could repeat", c);
    } else {
      node.characters.set(static_cast<unsigned char>(c));
    }
    return node;
  }

  Result<Characters> Escape() {
    if (AtEnd()) return Fail(Code::kInvalid, "it ends with '\\'");
    const char c = text_[at_++];
    Characters characters;
    for (int i = 0; i < 256; ++i) {
      if (c == 'd') characters[i] = std::isdigit(i) != 0;
      if (c == 'w') characters[i] = std::isalnum(i) != 0 || i == '_';
    }
    if (c == 'd' || c == 'w') return characters;
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      return Fail(Code::kInvalid, "the escape '\\{}' is not supported", c);
    }
    characters.set(static_cast<unsigned char>(c));
    return characters;
  }

  Result<Characters> Class() {
    Characters characters;
    const bool negated = Next('^');
    for (bool first = true; first || AtEnd() || text_[at_] != ']'; first = false) {
      if (AtEnd()) return Fail(Code::kInvalid, "a '[' has no ']'");
      const char c = text_[at_++];
      if (c == '\\') {
        characters |= PIE_TRY(Escape());
        continue;
      }
      const bool range = at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']';
      const char end = range ? text_[at_ + 1] : c;
      if (range) at_ += 2;
      for (int i = static_cast<unsigned char>(c); i <= static_cast<unsigned char>(end); ++i) {
        characters.set(i);
      }
    }
    ++at_;
    return negated ? ~characters : characters;
  }

  Result<uint32_t> Append(ModulePattern& pattern, ModulePattern::State state) {
    if (pattern.states_.size() >= limits::kModulePatternParts) {
      return Fail(Code::kInvalid, "it is too long once its repetitions are written out");
    }
    pattern.states_.push_back(state);
    return static_cast<uint32_t>(pattern.states_.size() - 1);
  }

  Result<uint32_t> Emit(ModulePattern& pattern, const Node& node, uint32_t next) {
    switch (node.kind) {
      case Node::Kind::kCharacters:
        return Append(pattern,
                      {.kind = Kind::kCharacters, .characters = node.characters, .next = next});
      case Node::Kind::kSequence:
        for (size_t i = node.parts.size(); i-- > 0;) {
          next = PIE_TRY(Emit(pattern, node.parts[i], next));
        }
        return next;
      case Node::Kind::kAlternatives: {
        uint32_t begin = PIE_TRY(Emit(pattern, node.parts[0], next));
        for (size_t i = 1; i < node.parts.size(); ++i) {
          const uint32_t other = PIE_TRY(Emit(pattern, node.parts[i], next));
          begin = PIE_TRY(Append(pattern, {.kind = Kind::kSplit, .next = begin, .other = other}));
        }
        return begin;
      }
      case Node::Kind::kRepeat:
        return EmitRepeat(pattern, node, next);
    }
    return next;
  }

  Result<uint32_t> EmitRepeat(ModulePattern& pattern, const Node& node, uint32_t next) {
    const Node& part = node.parts[0];
    uint32_t begin = next;
    if (node.most == kForEver) {
      begin = PIE_TRY(Append(pattern, {.kind = Kind::kSplit, .next = next, .other = next}));
      const uint32_t body = PIE_TRY(Emit(pattern, part, begin));
      pattern.states_[begin].other = body;
    } else {
      for (uint32_t i = node.least; i < node.most; ++i) {
        const uint32_t body = PIE_TRY(Emit(pattern, part, begin));
        begin = PIE_TRY(Append(pattern, {.kind = Kind::kSplit, .next = next, .other = body}));
      }
    }
    for (uint32_t i = 0; i < node.least; ++i) begin = PIE_TRY(Emit(pattern, part, begin));
    return begin;
  }

  const std::string_view text_;
  size_t at_ = 0;
};

Result<ModulePattern> ModulePattern::Compile(std::string_view pattern) {
  if (pattern.size() > limits::kModulePatternBytes) {
    return Fail(Code::kInvalid, "the pattern has {} bytes; at most {} are allowed", pattern.size(),
                limits::kModulePatternBytes);
  }
  auto made = ModulePatternParser(pattern).Run();
  if (!made) {
    return Fail(made.error().code, "the pattern '{}': {}", Shown(pattern), made.error().text);
  }
  return made;
}

// Adds a state and those that it leads to without a character.
void ModulePattern::Add(uint32_t state, std::vector<uint32_t>& states,
                        std::vector<bool>& seen) const {
  std::vector<uint32_t> waiting = {state};
  while (!waiting.empty()) {
    const uint32_t next = waiting.back();
    waiting.pop_back();
    if (seen[next]) continue;
    seen[next] = true;
    if (states_[next].kind == State::Kind::kSplit) {
      waiting.push_back(states_[next].next);
      waiting.push_back(states_[next].other);
    } else {
      states.push_back(next);
    }
  }
}

bool ModulePattern::Match(std::string_view name, bool behind_dots) const {
  std::vector<uint32_t> states;
  std::vector<bool> seen(states_.size());
  Add(0, states, seen);
  for (const char c : name) {
    std::vector<uint32_t> following;
    seen.assign(states_.size(), false);
    for (const uint32_t state : states) {
      const State& at = states_[state];
      if (at.kind == State::Kind::kCharacters && at.characters[static_cast<unsigned char>(c)]) {
        Add(at.next, following, seen);
      }
    }
    if (behind_dots && c == '.') Add(0, following, seen);
    states = std::move(following);
  }
  for (const uint32_t state : states) {
    if (states_[state].kind == State::Kind::kMatch) return true;
  }
  return false;
}

}  // namespace pie
