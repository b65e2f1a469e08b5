// Base64, for keys, challenges and signatures.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pie_client {

std::string ToBase64(std::string_view bytes);
// Returns nothing if the text is not base64.
std::optional<std::string> FromBase64(std::string_view text);

}  // namespace pie_client
