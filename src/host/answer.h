// The generated host table (pie_host_table.h) is built from these functions. `Answer` runs one host
// function, and `Put` writes its result into the reply, part by part, in the order in which Rust
// reads it (bridge/src/host/reply.rs). No error and no exception escapes: each becomes the text of
// the reply's error.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <exception>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "abi/text.h"
#include "backend/batch.h"
#include "base/result.h"
#include "host/process.h"
#include "pie_bridge.h"
#include "wasm/guest_call.h"

namespace pie::host {

using abi::ToStr;
using abi::View;
using pie_bridge::Reply;

// The arguments of a host function, as they arrive over the C ABI.
template <class T>
std::optional<T> Optional(const T* value) {
  return value != nullptr ? std::optional<T>(*value) : std::nullopt;
}
inline std::optional<std::string_view> Optional(const pie_bridge::Str* text) {
  return text != nullptr ? std::optional(View(*text)) : std::nullopt;
}

template <class T>
  requires std::integral<T> || std::is_enum_v<T>
void Put(Reply* reply, T number) {
  pie_bridge::pie_reply_number(reply, static_cast<uint64_t>(number));
}
inline void Put(Reply* reply, float number) {
  pie_bridge::pie_reply_number(reply, std::bit_cast<uint32_t>(number));
}
inline void Put(Reply* reply, double number) {
  pie_bridge::pie_reply_number(reply, std::bit_cast<uint64_t>(number));
}
inline void Put(Reply* reply, const std::string& text) {
  pie_bridge::pie_reply_bytes(reply, ToStr(text));
}
inline void Put(Reply* reply, const std::vector<uint32_t>& words) {
  pie_bridge::pie_reply_words(reply, {words.data(), words.size()});
}
inline void Put(Reply* reply, const std::vector<float>& floats) {
  // Rust reads the floats as 32-bit words and passes their bits to the guest.
  pie_bridge::pie_reply_words(reply,
                              {reinterpret_cast<const uint32_t*>(floats.data()), floats.size()});
}

// `Slot` is the device's own type for `pie:core/inference.slot-output`.
static_assert(std::is_same_v<Slot, std::variant<TokenSlot, DistributionSlot, LogitsSlot,
                                                LogprobsSlot, EntropySlot, EmbeddingSlot>>,
              "its cases are those of the contract, in the same order");
inline void Put(Reply* reply, const TokenSlot& slot) {
  Put(reply, slot.token);
}
inline void Put(Reply* reply, const DistributionSlot& slot) {
  Put(reply, slot.ids);
  Put(reply, slot.probs);
}
// Writes numbers that the contract passes as bytes. WebAssembly and this machine have the same byte
// order.
inline void PutBytes(Reply* reply, const std::vector<float>& numbers) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(numbers));
  pie_bridge::pie_reply_bytes(reply,
                              {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}
inline void Put(Reply* reply, const LogitsSlot& slot) {
  PutBytes(reply, slot.logits);
}
inline void Put(Reply* reply, const EmbeddingSlot& slot) {
  PutBytes(reply, slot.state);
}
inline void Put(Reply* reply, const LogprobsSlot& slot) {
  Put(reply, slot.logprobs);
}
inline void Put(Reply* reply, const EntropySlot& slot) {
  Put(reply, slot.entropy);
}

// The types below may contain one another, and types that the generated header adds.
template <class T>
void Put(Reply* reply, const std::vector<T>& list);
template <class T>
void Put(Reply* reply, const std::optional<T>& value);
template <class T, class E>
void Put(Reply* reply, const std::expected<T, E>& value);
template <class... T>
void Put(Reply* reply, const std::tuple<T...>& items);
template <class... T>
void Put(Reply* reply, const std::variant<T...>& value);

template <class T>
void Put(Reply* reply, const std::vector<T>& list) {
  Put(reply, list.size());
  for (const T& item : list) Put(reply, item);
}
template <class T>
void Put(Reply* reply, const std::optional<T>& value) {
  Put(reply, value.has_value());
  if (value) Put(reply, *value);
}
template <class T, class E>
void Put(Reply* reply, const std::expected<T, E>& value) {
  Put(reply, value.has_value());
  if (!value) return Put(reply, value.error());
  if constexpr (!std::is_void_v<T>) Put(reply, *value);
}
template <class... T>
void Put(Reply* reply, const std::tuple<T...>& items) {
  std::apply([&](const T&... item) { (Put(reply, item), ...); }, items);
}
template <class... T>
void Put(Reply* reply, const std::variant<T...>& value) {
  Put(reply, value.index());
  std::visit([&](const auto& held) { Put(reply, held); }, value);
}

// Runs `body` for the process behind `guest`, then `give` with the result. Returns whether both
// succeeded.
template <class Body, class Give>
bool Contain(void* guest, Reply* reply, Body&& body, Give&& give) noexcept {
  const wasm::GuestCall call(guest);
  const auto fail = [&](std::string_view text) {
    pie_bridge::pie_reply_error(reply, ToStr(text));
    return false;
  };
  try {
    auto result = body(*static_cast<Process*>(static_cast<wasm::Guest*>(guest)));
    if (!result) return fail(result.error().text);
    if constexpr (!std::is_void_v<typename decltype(result)::value_type>) give(*result);
    return true;
  } catch (const std::exception& error) {
    return fail(error.what());
  } catch (...) {
    return fail("a host function failed for an unknown reason (a bug in Pie)");
  }
}

// Answers a function whose result goes into the reply, or that has no result.
template <class Body>
bool Answer(void* guest, Reply* reply, Body&& body) noexcept {
  return Contain(guest, reply, body, [&](const auto& result) { Put(reply, result); });
}
// Answers a function that returns one number, handle or signal.
template <class T, class Body>
bool Answer(void* guest, Reply* reply, T* result, Body&& body) noexcept {
  return Contain(guest, reply, body, [&](const T& value) { *result = value; });
}

}  // namespace pie::host
