// Declarations that the rows of the reference share in C++.
#pragma once

#include <inferlet/inferlet.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <numeric>
#include <string>

using namespace inferlet;

using Row = Task<Result<void>> (*)(const Model& model);
using Rows = std::map<std::string, Row>;

inline const std::string SCHEMA =
    R"({"name": "f", "description": "d", "parameters": {"type": "object", "properties":
    {"x": {"type": "integer"}}, "required": ["x"]}})";

inline Result<void> Check(bool condition) {
  if (condition) return {};
  return Error("the check does not hold");
}

inline std::string Fresh() {
  static int number = 0;
  return "reference-cpp-" + std::to_string(number++);
}

inline uint32_t Letter(const Model& model, std::string_view text) {
  return model.Tokenizer().Encode(text)[0];
}

// All tokens of the vocabulary.
inline std::vector<uint32_t> Every(const Model& model) {
  return model.Tokenizer().Vocabs().ids;
}

// A special token that does not end a turn.
inline uint32_t Special(const Model& model) {
  std::vector<uint32_t> ids = model.Tokenizer().SpecialTokens().ids;
  const std::vector<uint32_t> stops = chat::StopTokens(model);
  std::erase_if(ids, [&](uint32_t id) { return std::ranges::contains(stops, id); });
  return std::ranges::min(ids);
}

// Whether the tokens are a text that consists of these letters alone.
inline bool Holds(const Model& model, const std::vector<uint32_t>& tokens,
                  std::string_view letters) {
  const Result<std::string> text = model.Tokenizer().Decode(tokens);
  return text && text->find_first_not_of(letters) == std::string::npos;
}

// Whether a mask allows the token. The mask is a list of runs; the first run is not allowed.
inline bool Allows(const std::vector<uint32_t>& mask, uint32_t token) {
  uint32_t end = 0;
  for (size_t run = 0; run < mask.size(); ++run) {
    if (token < (end += mask[run])) return run % 2 == 1;
  }
  return false;
}

// Whether a handle of this type compiles where a sampler's is needed.
template <class Handle>
constexpr bool kReadsToken = requires(const Output& out, Handle handle) { out.Token(handle); };

class MySpec : public Speculator {
 public:
  std::pair<std::vector<uint32_t>, std::vector<uint32_t>> Draft() override { return {}; }
  void Accept(std::span<const uint32_t>) override {}
};
