// What the rows of the reference share in C++.
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

// Whether a handle of this type compiles where a sampler's is needed.
template <class Handle>
constexpr bool kReadsToken = requires(const Output& out, Handle handle) { out.Token(handle); };

class MySpec : public Speculator {
 public:
  std::pair<std::vector<uint32_t>, std::vector<uint32_t>> Draft() override { return {}; }
  void Accept(std::span<const uint32_t>) override {}
};
