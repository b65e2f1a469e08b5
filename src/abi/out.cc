#include "abi/out.h"

#include "abi/text.h"

namespace pie::abi {

Out::Out() : out_(pie_bridge::pie_out_new()) {}

Out::~Out() {
  pie_bridge::pie_out_free(out_);
}

std::string Out::text() const {
  return std::string(View(pie_bridge::pie_out_read(out_)));
}

std::vector<uint32_t> Out::words() const {
  const pie_bridge::Words words = pie_bridge::pie_out_read_words(out_);
  return {words.ptr, words.ptr + words.len};
}

std::string Out::error() const {
  std::string error = text();
  return error.empty() ? "the bridge failed (a bug in Pie)" : error;
}

}  // namespace pie::abi
