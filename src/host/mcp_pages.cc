#include "host/mcp_pages.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace pie::host {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kCursor = "nextCursor";
constexpr size_t kMostCursorBytes = 64ull << 10;

struct Member {
  std::string_view name, value;  // texts of the page; the name without its quotes
};

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Returns the members of an object, which is valid JSON. Anything else has none.
std::vector<Member> MembersOf(std::string_view json) {
  std::vector<Member> members;
  json = Trim(json);
  if (!json.starts_with('{')) return members;
  size_t depth = 0, begin = 1;
  std::string_view name;
  const auto end_value = [&](size_t end) {
    if (!name.empty()) members.push_back({name, Trim(json.substr(begin, end - begin))});
    begin = end + 1;
    name = {};
  };
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') {
      while (json[++i] != '"') i += json[i] == '\\' ? 1 : 0;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (--depth == 0) end_value(i);
    } else if (depth == 1 && c == ':') {
      const std::string_view quoted = Trim(json.substr(begin, i - begin));
      name = quoted.substr(1, quoted.size() - 2);
      begin = i + 1;
    } else if (depth == 1 && c == ',') {
      end_value(i);
    }
  }
  return members;
}

std::string_view Find(const std::vector<Member>& members, std::string_view name) {
  // Of members with the same name, JSON's readers take the last.
  const auto found = std::find_if(members.rbegin(), members.rend(),
                                  [&](const Member& member) { return member.name == name; });
  return found == members.rend() ? std::string_view() : found->value;
}

// Returns what is between the brackets of a list.
std::string_view ItemsOf(std::string_view list) {
  return Trim(list.substr(1, list.size() - 2));
}

std::string CursorOf(std::string_view value) {
  if (!value.starts_with('"') || value.size() > kMostCursorBytes) return {};
  return nlohmann::json::parse(value).get<std::string>();
}

}  // namespace

Result<std::optional<std::string>> McpPages::Add(std::string page) {
  bytes_ += page.size();
  if (bytes_ > most_bytes_) {
    return Fail(Code::kExhausted, "the pages of the list have {} bytes; at most {} MiB are allowed",
                bytes_, most_bytes_ >> 20);
  }
  ++pages_;
  // Most lists have one page, which passes as it is.
  const bool may_go_on = page.find(kCursor) != std::string::npos;
  if (pages_ == 1 && !may_go_on) {
    first_ = std::move(page);
    return std::nullopt;
  }
  const std::vector<Member> members = MembersOf(page);
  const std::string_view list = Find(members, member_);
  std::string next = CursorOf(Find(members, kCursor));
  if (!list.starts_with('[')) {
    if (pages_ > 1) {
      return Fail(Code::kInvalid, "page {} of the list has no array '{}'", pages_, member_);
    }
    next.clear();
  } else if (const std::string_view items = ItemsOf(list); pages_ > 1 && !items.empty()) {
    items_.append(",").append(items);
  }
  if (pages_ == 1) first_ = std::move(page);
  const bool more = !next.empty() && pages_ < kMostPages && next != cursor_;
  cursor_ = std::move(next);
  return more ? std::optional(cursor_) : std::nullopt;
}

std::string McpPages::Take() {
  if (pages_ <= 1) return std::move(first_);
  const std::vector<Member> members = MembersOf(first_);
  const std::string_view items = ItemsOf(Find(members, member_));
  std::string joined = "{\"" + member_ + "\":[";
  joined += items;
  joined += items.empty() && !items_.empty() ? std::string_view(items_).substr(1) : items_;
  joined += "]";
  for (const Member& member : members) {
    if (member.name == member_ || member.name == kCursor) continue;
    joined.append(",\"").append(member.name).append("\":").append(member.value);
  }
  if (!cursor_.empty()) {
    joined.append(",\"").append(kCursor).append("\":").append(nlohmann::json(cursor_).dump());
  }
  return joined + "}";
}

}  // namespace pie::host
