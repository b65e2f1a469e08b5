// Page: the files of web/, which a browser gets at the server's root. They are read once, when the
// server starts, so a path of a request never becomes a path of the disk. They hold no data: what
// the page shows comes over a WebSocket, to clients that have logged in. Immutable.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pie::server {

class Page {
 public:
  struct File {
    std::string type;  // of its content
    std::string etag;
    std::string bytes;
  };
  Page() = default;  // without files

  // Reads `folder`: index.html becomes `/`, every other file `/page/<its name>`. Folders in it, and
  // files of kinds that the page has no use for, are left out. A missing folder is an empty page.
  static Result<Page> Read(const std::string& folder);

  bool empty() const { return files_.empty(); }
  const File* Find(std::string_view path) const;  // null: there is no such file

 private:
  std::map<std::string, File, std::less<>> files_;  // by path
};

}  // namespace pie::server
