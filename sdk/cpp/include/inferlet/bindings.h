// The bindings generated from wit/, and conversions from their types to those of the standard
// library.
//
// `inferlet::raw` names the types that an inferlet may want to use directly. All bindings are in
// generated/imports_cpp.h.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "imports_cpp.h"
#include "inferlet/result.h"

namespace inferlet {
namespace raw {

using pie::core::adapter::Adapter;
using pie::core::context::Context;
using pie::core::inference::ForwardPass;
using pie::core::inference::FutureOutput;
using pie::core::inference::Grammar;
using pie::core::inference::Matcher;
using pie::core::inference::Output;
using pie::core::model::Model;
using pie::core::model::Tokenizer;
using pie::plus::chains::Chain;

}  // namespace raw

namespace detail {

inline std::string Text(const wit::string& text) {
  return text.to_string();
}

template <class T>
std::vector<T> List(const wit::vector<T>& list) {
  return std::vector<T>(list.data(), list.data() + list.size());
}

inline std::vector<std::string> Texts(const wit::vector<wit::string>& list) {
  std::vector<std::string> texts;
  texts.reserve(list.size());
  for (const wit::string& text : list.get_view()) texts.push_back(text.to_string());
  return texts;
}

// Converts a result of the bindings: `convert` maps the value, and the error becomes a std::string.
template <class T, class Convert>
auto Lift(std::expected<T, wit::string>&& result, Convert convert)
    -> Result<decltype(convert(*std::move(result)))> {
  if (!result) return Error(result.error().to_string());
  return convert(*std::move(result));
}

inline Result<void> Lift(const std::expected<void, wit::string>& result) {
  if (!result) return Error(result.error().to_string());
  return {};
}

inline Result<std::string> LiftText(std::expected<wit::string, wit::string>&& result) {
  return Lift(std::move(result), Text);
}

}  // namespace detail
}  // namespace inferlet
