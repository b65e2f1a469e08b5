// The model's reasoning, apart from its answer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "inferlet/bindings.h"
#include "inferlet/model.h"
#include "inferlet/result.h"

namespace inferlet::reasoning {

struct Idle {};
struct Start {};  // a reasoning block begins
struct Delta {
  std::string text;
};
struct End {         // the block has ended
  std::string text;  // all of it
};
using Event = std::variant<Idle, Start, Delta, End>;

class Decoder {
 public:
  explicit Decoder(const Model& model);
  Result<Event> Feed(std::span<const uint32_t> tokens);
  void Reset();

 private:
  pie::instruct::reasoning::Decoder raw_;
};

}  // namespace inferlet::reasoning
