// UTF-8 that may be malformed or cut at any byte: a model emits bytes, a reader sees characters.
#pragma once

#include <string>
#include <string_view>

namespace pie {

// Appends the complete characters at the front of `bytes` to `text` and returns the number of bytes
// consumed. Malformed bytes become U+FFFD, one for each maximal malformed part, as Unicode advises.
// A prefix of a character at the end (at most 3 bytes) is not consumed.
size_t AppendWholeCharacters(std::string_view bytes, std::string& text);

// Returns how many bytes at the front of `bytes` are complete, well-formed characters. It reads
// some gigabytes in a second where most characters are ASCII.
size_t ValidUtf8Bytes(std::string_view bytes);

// Converts text that is complete: a truncated character at the end becomes U+FFFD too.
std::string ToValidUtf8(std::string_view bytes);

}  // namespace pie
