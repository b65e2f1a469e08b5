// McpPages: joins the pages of a list that an MCP server sends in parts. The texts are joined, not
// parsed JSON, which takes many times their memory. One thread at a time.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pie::host {

class McpPages {
 public:
  static constexpr size_t kMostPages = 64;

  // `member` is the name of the list in each page, such as "tools". All pages together may have
  // `most_bytes`.
  McpPages(std::string_view member, size_t most_bytes) : member_(member), most_bytes_(most_bytes) {}

  // `page` is valid JSON. Returns the cursor of the next page; none if this was the last one. Fails
  // if the pages are too long, or if one after the first has no list.
  Result<std::optional<std::string>> Add(std::string page);
  // The first page, with the items of all of them. It has a `nextCursor` if there are more pages
  // than are read, or if the server gives the same cursor again.
  std::string Take();

 private:
  const std::string member_;
  const size_t most_bytes_;
  std::string first_;
  std::string items_;  // of the later pages, each behind a comma
  std::string cursor_;
  size_t pages_ = 0, bytes_ = 0;
};

}  // namespace pie::host
