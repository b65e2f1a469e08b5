// How a model marks its reasoning, as far as a grammar has to know: a document that thoughts may
// precede. The engine's decoder of reasoning knows the marks; it is asked which of the usual ones
// it takes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "inferlet/model.h"
#include "inferlet/result.h"

namespace inferlet::detail {

class Thoughts {
 public:
  // None if the model has no marks, or unusual ones.
  static Result<std::optional<Thoughts>> Of(const Model& model);

  // The model's turn begins inside of its thoughts.
  bool begun() const { return begun_; }
  // The Lark grammar of a document of this JSON Schema, after thoughts if there are any.
  std::string Grammar(std::string_view schema) const;
  // The text after the thoughts.
  Result<std::string> Document(const Model& model, std::span<const uint32_t> tokens) const;

 private:
  struct Mark {
    std::string text;
    std::optional<uint32_t> id;  // of a special token
  };
  Thoughts(Mark open, Mark close, bool begun)
      : open_(std::move(open)), close_(std::move(close)), begun_(begun) {}
  static std::string Written(const Mark& mark);

  Mark open_;
  Mark close_;
  bool begun_;
};

}  // namespace inferlet::detail
