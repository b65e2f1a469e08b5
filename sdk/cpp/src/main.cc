#include "inferlet/main.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <unistd.h>

#include "inferlet/prints.h"
#include "trace.h"

// The world's type is embedded by bakery, with the inferlet's own export in it. The bindings ask
// for an object file that carries the type of the imports alone; nothing stands in for it.
extern "C" void __component_type_object_force_link_imports() {}

// The host allocates the input with this. It stands beside the bindings, which a program that calls
// no host function would not link.
extern "C" void* cabi_realloc(void* old, size_t old_size, size_t align, size_t new_size);
[[gnu::used]] static void* (*const kLinked)(void*, size_t, size_t, size_t) = &cabi_realloc;

namespace inferlet::detail {
namespace {

// A longer text is written in several pieces: the adapter takes so much at a time.
constexpr size_t kLineBytes = 4096;
char line_buffer[kLineBytes];

}  // namespace

ssize_t WriteTogether(int file, const iovec* pieces, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
  }
  return write(file, bytes.data(), bytes.size());
}

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
