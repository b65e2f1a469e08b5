#include "cli/testing/expectation.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <vector>

#include "base/utf8.h"

namespace pie::cli {
namespace {

constexpr size_t kMostLines = 400;  // of texts that are compared line by line
constexpr size_t kMostShown = 4'000;

std::string Quoted(std::string_view text) {
  const bool cut = text.size() > kMostShown;
  const auto json = nlohmann::json(ToValidUtf8(text.substr(0, kMostShown)));
  return json.dump() + (cut ? fmt::format(" … ({} bytes)", text.size()) : "");
}

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (true) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == text.npos) return lines;
    text.remove_prefix(end + 1);
  }
}

// Lines that both have begin with two spaces, expected ones with -, others with +.
std::string LineDiff(const std::vector<std::string_view>& expected,
                     const std::vector<std::string_view>& got) {
  const size_t n = expected.size(), m = got.size();
  // [i][j]: how many lines the rests from i and j on have in common
  std::vector<std::vector<uint16_t>> common(n + 1, std::vector<uint16_t>(m + 1));
  for (size_t i = n; i-- > 0;) {
    for (size_t j = m; j-- > 0;) {
      common[i][j] = expected[i] == got[j] ? static_cast<uint16_t>(common[i + 1][j + 1] + 1)
                                           : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::string diff;
  for (size_t i = 0, j = 0; i < n || j < m;) {
    if (i < n && j < m && expected[i] == got[j]) {
      diff += fmt::format("\n    {}", expected[i]);
      ++i, ++j;
    } else if (j == m || (i < n && common[i + 1][j] >= common[i][j + 1])) {
      diff += fmt::format("\n  - {}", expected[i++]);
    } else {
      diff += fmt::format("\n  + {}", got[j++]);
    }
  }
  return diff;
}

std::string Compare(std::string_view expected, std::string_view got) {
  const auto expected_lines = Lines(expected), got_lines = Lines(got);
  const size_t lines = std::max(expected_lines.size(), got_lines.size());
  if (std::min(expected_lines.size(), got_lines.size()) > 1 && lines <= kMostLines) {
    return "; expected lines have -, others +:" + LineDiff(expected_lines, got_lines);
  }
  const std::string wanted = Quoted(expected), was = Quoted(got);
  const size_t same = static_cast<size_t>(std::ranges::mismatch(wanted, was).in1 - wanted.begin());
  return fmt::format(":\n  expected {}\n  got      {}\n           {:>{}}", wanted, was, "^",
                     same + 1);
}

}  // namespace

std::optional<std::string> Expectation::DifferenceOf(std::string_view what,
                                                     std::string_view got) const {
  switch (how) {
    case How::kIs:
      if (got == text) return std::nullopt;
      return fmt::format("{} is not as expected{}", what, Compare(text, got));
    case How::kContains:
      if (got.find(text) != got.npos) return std::nullopt;
      return fmt::format("{} does not contain {}:\n  got {}", what, Quoted(text), Quoted(got));
    case How::kMatches:
      if (std::regex_search(got.begin(), got.end(), std::regex(text))) return std::nullopt;
      return fmt::format("{} does not match {}:\n  got {}", what, Quoted(text), Quoted(got));
    case How::kIsJson:
      break;
  }
  const auto value = nlohmann::json::parse(got, nullptr, false);
  if (value == json) return std::nullopt;
  if (value.is_discarded()) {
    return fmt::format("{} is not JSON:\n  expected {}\n  got      {}", what, json.dump(),
                       Quoted(got));
  }
  return fmt::format("{} is not as expected{}", what, Compare(json.dump(2), value.dump(2)));
}

}  // namespace pie::cli
