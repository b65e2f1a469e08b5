// A document that thoughts may precede. The engine knows how the model marks its thoughts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "inferlet/model.h"
#include "inferlet/result.h"

namespace inferlet::detail {

// The marks of a model's reasoning.
class Thoughts {
 public:
  // None if the model has no marks.
  static std::optional<Thoughts> Of(const Model& model);

  // Whether the model's turn begins inside of its thoughts.
  bool begun() const { return begun_; }
  // The Lark grammar of a document of this JSON Schema, after thoughts if there are any.
  std::string Grammar(std::string_view schema) const;
  // The text after the thoughts.
  Result<std::string> Document(const Model& model, std::span<const uint32_t> tokens) const;

 private:
  std::string open_;
  std::string close_;
  std::optional<uint32_t> close_token_;
  bool begun_ = false;
  std::string rules_;
};

}  // namespace inferlet::detail
