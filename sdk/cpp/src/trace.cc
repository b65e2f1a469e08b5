// The lines that the last error has passed on its way out of the program. An inferlet has one
// thread, and an error is passed on by the lines that PIE_TRY stands in, one after the other.
#include "trace.h"

#include <array>
#include <cstdio>
#include <string_view>

#include "inferlet/result.h"

namespace inferlet::detail {
namespace {

struct Line {
  const char* file;
  uint32_t number;
  const char* function;
};

struct Trace {
  std::string message;
  std::array<Line, 32> lines;
  size_t count = 0;
};

Trace& LastTrace() {
  static Trace trace;
  return trace;
}

// bakery gives the SDK's own files this prefix.
bool IsOfTheSdk(std::string_view file) {
  return file.starts_with("sdk/cpp/");
}

}  // namespace

void NotePassage(const std::string& message, const char* file, uint32_t line,
                 const char* function) {
  Trace& trace = LastTrace();
  if (trace.message != message) {
    trace.message = message;
    trace.count = 0;
  }
  if (trace.count < trace.lines.size() && !IsOfTheSdk(file)) {
    trace.lines[trace.count++] = {file, line, function};
  }
}

void PrintTrace(const std::string& message) {
  const Trace& trace = LastTrace();
  if (trace.message != message || trace.count == 0) return;
  std::fprintf(stderr, "error: %s\n", message.c_str());
  for (size_t i = 0; i < trace.count; ++i) {
    const Line& line = trace.lines[i];
    std::fprintf(stderr, "    at %s (%s:%u)\n", line.function, line.file,
                 static_cast<unsigned>(line.number));
  }
}

}  // namespace inferlet::detail
