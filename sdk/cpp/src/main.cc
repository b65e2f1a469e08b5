#include "inferlet/main.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "trace.h"

// The world's type is embedded by bakery, with the inferlet's own export in it. The bindings ask
// for an object file that carries the type of the imports alone; nothing stands in for it.
extern "C" void __component_type_object_force_link_imports() {}

// The host allocates the input with this. It stands beside the bindings, which a program that calls
// no host function would not link.
extern "C" void* cabi_realloc(void* old, size_t old_size, size_t align, size_t new_size);
[[gnu::used]] static void* (*const kLinked)(void*, size_t, size_t, size_t) = &cabi_realloc;

namespace {

// A part of what is written, as WASI spells it.
struct Piece {
  const char* data;
  size_t size;
};

extern "C" [[clang::import_module("wasi_snapshot_preview1"), clang::import_name("fd_write")]]
int32_t PieWrite(int32_t file, const Piece* pieces, size_t count, size_t* written);

}  // namespace

// stdio writes what is buffered and what is new as two pieces, and the adapter takes one piece at a
// time, which becomes an event of its own. So this stands in for the C library's import and joins
// the pieces of stdout and stderr: one print is one event.
extern "C" int32_t __imported_wasi_snapshot_preview1_fd_write(int32_t file, const Piece* pieces,
                                                              size_t count, size_t* written) {
  if (count < 2 || (file != 1 && file != 2)) return PieWrite(file, pieces, count, written);
  std::string bytes;
  for (const Piece& piece : std::span(pieces, count)) bytes.append(piece.data, piece.size);
  const Piece whole{bytes.data(), bytes.size()};
  return PieWrite(file, &whole, 1, written);
}

namespace inferlet::detail {
namespace {

// A longer text is written in several pieces of this size, the most that the adapter takes at a
// time.
constexpr size_t kLineBytes = 4096;
char line_buffer[kLineBytes];

}  // namespace

// A reactor has no exit that would flush, and a stream that is no terminal is fully buffered.
void BeforeMain() {
  std::setvbuf(stdout, line_buffer, _IOLBF, kLineBytes);
}

ReturnArea* AfterMain(Result<std::string> result) {
  std::fflush(stdout);
  if (!result) PrintTrace(result.error());
  const std::string& text = result ? *result : result.error();
  auto* area = static_cast<ReturnArea*>(std::malloc(sizeof(ReturnArea)));
  *area = {.is_error = !result, .text = nullptr, .size = text.size()};
  if (!text.empty()) {
    area->text = static_cast<char*>(std::malloc(text.size()));
    std::memcpy(area->text, text.data(), text.size());
  }
  return area;
}

void Free(ReturnArea* area) {
  std::free(area->text);
  std::free(area);
}

}  // namespace inferlet::detail
