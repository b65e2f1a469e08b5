// What the files of the host API share: how a call is answered. Each of them is one WIT interface:
// validate → translate → call → translate back.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "host/engine.h"
#include "host/process.h"
#include "pie_bridge.h"
#include "wasm/text.h"
#include "wasm/turn.h"

namespace pie::host {

using pie_bridge::HandleKind;
using pie_bridge::Out;
using pie_bridge::Str;
using pie_bridge::Words;
using wasm::ToStr;
using wasm::View;

inline std::span<const uint32_t> View(Words words) {
  return {words.ptr, words.len};
}
inline void PutText(Out* out, std::string_view text) {
  pie_bridge::pie_out_text(out, ToStr(text));
}
inline void PutBlob(Out* out, std::string_view blob) {
  pie_bridge::pie_out_blob(out, ToStr(blob));
}
inline void PutWords(Out* out, std::span<const uint32_t> words) {
  uint32_t* room = pie_bridge::pie_out_words(out, words.size());
  std::copy(words.begin(), words.end(), room);
}

inline Process& ProcessOf(void* guest) {
  return *static_cast<Process*>(static_cast<wasm::Guest*>(guest));
}

// Runs `body`, which returns a Status, for the process behind `guest`. An error becomes the text in
// `out` and false.
template <class Body>
bool Answer(void* guest, Out* out, Body&& body) noexcept {
  const wasm::Turn turn(guest);
  try {
    Status status = body(ProcessOf(guest));
    if (status) return true;
    PutText(out, status.error().text);
  } catch (const std::exception& error) {
    PutText(out, error.what());
  }
  return false;
}

// The model behind a handle, and its scheduler.
inline Result<LoadedModel*> ModelOf(Process& process, uint32_t handle) {
  uint32_t* index = PIE_TRY(process.handles().models.Get(handle));
  return &process.engine().models()[*index];
}

}  // namespace pie::host
