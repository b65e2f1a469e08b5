// How text is laid out on a terminal: wide characters take two columns, combining ones none, and a
// line that is full continues in the next row.
#pragma once

#include <cstddef>
#include <string_view>

namespace pie::cli {

// How many columns a text without line ends takes. Bytes that are not UTF-8 take one each.
size_t Columns(std::string_view text);

// A place on a terminal of some width. A column equal to the width means that the row is full: the
// next character goes to the next row.
struct Place {
  size_t row = 0;
  size_t column = 0;
};

// Where the cursor is after a text that was printed at `from`.
Place After(Place from, std::string_view text, size_t width);

}  // namespace pie::cli
