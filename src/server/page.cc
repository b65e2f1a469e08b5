#include "server/page.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "host/hash.h"

namespace pie::server {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMostFileBytes = 4ull << 20;
constexpr size_t kEtagDigits = 32;

std::string_view TypeOf(const fs::path& path) {
  const std::string kind = path.extension().string();
  if (kind == ".html") return "text/html; charset=utf-8";
  if (kind == ".css") return "text/css; charset=utf-8";
  if (kind == ".js") return "text/javascript; charset=utf-8";
  if (kind == ".svg") return "image/svg+xml";
  return "";
}

}  // namespace

Result<Page> Page::Read(const std::string& folder) {
  Page page;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    const fs::path& path = each->path();
    const std::string_view type = TypeOf(path);
    std::error_code ignored;
    if (type.empty() || !each->is_regular_file(ignored)) continue;
    if (each->file_size(ignored) > kMostFileBytes) {
      return Fail(Code::kInvalid, "the page's file {} has more than {} MiB", path.string(),
                  kMostFileBytes >> 20);
    }
    std::ifstream stream(path, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    if (!stream) return Fail(Code::kInternal, "the page's file {} cannot be read", path.string());
    const std::string name = path.filename().string();
    const std::string etag = fmt::format("\"{}\"", host::Blake3Hex(bytes).substr(0, kEtagDigits));
    page.files_[name == "index.html" ? "/" : "/page/" + name] = {
        .type = std::string(type), .etag = etag, .bytes = std::move(bytes)};
  }
  return page;
}

const Page::File* Page::Find(std::string_view path) const {
  const auto found = files_.find(path);
  return found == files_.end() ? nullptr : &found->second;
}

}  // namespace pie::server
