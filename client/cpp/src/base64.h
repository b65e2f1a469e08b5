// Base64, as keys, challenges and signatures have it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pie_client {

std::string ToBase64(std::string_view bytes);
// Nothing if it is none.
std::optional<std::string> FromBase64(std::string_view text);

}  // namespace pie_client
