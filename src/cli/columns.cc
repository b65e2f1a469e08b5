#include "cli/columns.h"

#include <algorithm>
#include <iterator>

namespace pie::cli {
namespace {

struct Range {
  char32_t first, last;
};

// Characters that stand on the one before them, or that are not visible (the blocks of combining
// marks that living scripts use, joiners and variation selectors).
constexpr Range kNarrowest[] = {
    {0x0300, 0x036f}, {0x0483, 0x0489},  {0x0591, 0x05bd}, {0x0610, 0x061a}, {0x064b, 0x065f},
    {0x093c, 0x093c}, {0x0941, 0x0948},  {0x094d, 0x094d}, {0x0e31, 0x0e31}, {0x0e34, 0x0e3a},
    {0x0e47, 0x0e4e}, {0x1160, 0x11ff},  {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200f},
    {0x202a, 0x202e}, {0x2060, 0x2064},  {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
    {0xfeff, 0xfeff}, {0xe0100, 0xe01ef}};

// Characters of two columns: those of East Asian scripts, and pictures.
constexpr Range kWide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x23e9, 0x23ec},   {0x25fd, 0x25fe},
    {0x2614, 0x2615},   {0x2648, 0x2653},   {0x26a1, 0x26a1},   {0x26bd, 0x26be},
    {0x26c4, 0x26c5},   {0x26d4, 0x26d4},   {0x26ea, 0x26ea},   {0x26fa, 0x26fa},
    {0x2705, 0x2705},   {0x270a, 0x270b},   {0x2728, 0x2728},   {0x274c, 0x274c},
    {0x2753, 0x2755},   {0x2757, 0x2757},   {0x2b50, 0x2b50},   {0x2e80, 0x303e},
    {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xa000, 0xa4cf},
    {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe4f},   {0xff00, 0xff60},
    {0xffe0, 0xffe6},   {0x1f18e, 0x1f18e}, {0x1f191, 0x1f19a}, {0x1f200, 0x1f251},
    {0x1f300, 0x1f320}, {0x1f32d, 0x1f335}, {0x1f337, 0x1f37c}, {0x1f37e, 0x1f393},
    {0x1f3a0, 0x1f3ca}, {0x1f3cf, 0x1f3d3}, {0x1f3e0, 0x1f3f0}, {0x1f3f8, 0x1f43e},
    {0x1f440, 0x1f4fc}, {0x1f4ff, 0x1f53d}, {0x1f54b, 0x1f567}, {0x1f595, 0x1f5a4},
    {0x1f5fb, 0x1f64f}, {0x1f680, 0x1f6c5}, {0x1f6cc, 0x1f6cc}, {0x1f6d0, 0x1f6ff},
    {0x1f7e0, 0x1f7eb}, {0x1f90c, 0x1f9ff}, {0x1fa70, 0x1faff}, {0x20000, 0x3fffd}};

template <size_t N>
bool IsIn(const Range (&ranges)[N], char32_t c) {
  const auto* after = std::ranges::upper_bound(ranges, c, {}, &Range::first);
  return after != std::begin(ranges) && c <= std::prev(after)->last;
}

size_t WidthOf(char32_t c) {
  if (c < 0x300) return 1;
  if (IsIn(kNarrowest, c)) return 0;
  return IsIn(kWide, c) ? 2 : 1;
}

// Takes the first character off a text that is not empty. A byte that begins no character counts
// as one.
char32_t Take(std::string_view* text) {
  const auto first = static_cast<unsigned char>(text->front());
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  char32_t c = length == 1 ? first : first & (0xff >> (length + 1));
  size_t taken = 1;
  for (; taken < length && taken < text->size(); ++taken) {
    const auto byte = static_cast<unsigned char>((*text)[taken]);
    if ((byte & 0xc0) != 0x80) break;
    c = c << 6 | (byte & 0x3f);
  }
  text->remove_prefix(taken);
  return c;
}

}  // namespace

size_t Columns(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) columns += WidthOf(Take(&text));
  return columns;
}

Place After(Place from, std::string_view text, size_t width) {
  Place at = from;
  while (!text.empty()) {
    const char32_t c = Take(&text);
    const size_t columns = c == '\n' ? 0 : WidthOf(c);
    if (c == '\n' || (columns > 0 && at.column + columns > width)) {
      ++at.row;
      at.column = 0;
    }
    at.column += columns;
  }
  return at;
}

}  // namespace pie::cli
