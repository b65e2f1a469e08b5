// Compares versions by the rules of semver.org.
#include <charconv>
#include <string_view>

#include "server/registry.h"

namespace pie::server {
namespace {

struct Version {
  std::string_view core, prerelease;
};

Version Split(std::string_view text) {
  text = text.substr(0, text.find('+'));  // build metadata does not count
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return {text, {}};
  return {text.substr(0, dash), text.substr(dash + 1)};
}

bool IsNumber(std::string_view part) {
  return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
}

int Compare(std::string_view a, std::string_view b) {
  if (IsNumber(a) && IsNumber(b)) {  // of any length
    a.remove_prefix(std::min(a.find_first_not_of('0'), a.size()));
    b.remove_prefix(std::min(b.find_first_not_of('0'), b.size()));
    if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  } else if (IsNumber(a) != IsNumber(b)) {
    return IsNumber(a) ? -1 : 1;  // numbers come before words
  }
  return a.compare(b);
}

// Compares the parts between dots. If all are equal, the version with fewer parts is older.
int CompareParts(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const size_t a_end = std::min(a.find('.'), a.size());
    const size_t b_end = std::min(b.find('.'), b.size());
    if (const int order = Compare(a.substr(0, a_end), b.substr(0, b_end)); order != 0) return order;
    a.remove_prefix(std::min(a_end + 1, a.size()));
    b.remove_prefix(std::min(b_end + 1, b.size()));
  }
  return static_cast<int>(!a.empty()) - static_cast<int>(!b.empty());
}

}  // namespace

bool OlderVersion(std::string_view a, std::string_view b) {
  const Version left = Split(a);
  const Version right = Split(b);
  if (const int order = CompareParts(left.core, right.core); order != 0) return order < 0;
  if (left.prerelease.empty() || right.prerelease.empty()) {
    return !left.prerelease.empty() && right.prerelease.empty();  // a prerelease is older
  }
  return CompareParts(left.prerelease, right.prerelease) < 0;
}

}  // namespace pie::server
