// UTF-8 that may be broken anywhere: a model emits bytes, a reader sees characters.
#pragma once

#include <string>
#include <string_view>

namespace pie {

// Appends the whole characters at the front of `bytes` to `text` and returns how many bytes they
// were. Bytes that cannot be part of a character become U+FFFD (one for each maximal wrong part, as
// Unicode advises). What may still become a character (at most 3 bytes at the end) is left.
size_t AppendWholeCharacters(std::string_view bytes, std::string& text);

// The same for text that is complete: an unfinished character at the end becomes U+FFFD too.
std::string ToValidUtf8(std::string_view bytes);

}  // namespace pie
