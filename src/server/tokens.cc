#include "server/tokens.h"

#include <toml++/toml.h>

#include <algorithm>
#include <ctime>
#include <sstream>

#include "base/whole_file.h"
#include "host/hash.h"
#include "server/private_toml.h"
#include "server/public_key.h"
#include "server/users.h"

namespace pie::server {
namespace {

constexpr std::string_view kPrefix = "pie-";
constexpr size_t kKeyBytes = 32;
constexpr size_t kMostTokens = 10'000;

std::string Today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[16] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%d", &parts);
  return text;
}

std::string NewKey() {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string key(kPrefix);
  for (const char byte : RandomBytes(kKeyBytes)) {
    const auto value = static_cast<unsigned char>(byte);
    key += kHex[value >> 4];
    key += kHex[value & 15];
  }
  return key;
}

}  // namespace

std::string Tokens::HashOf(std::string_view key) {
  return host::Blake3Hex(key);
}

Result<TokenTable> Tokens::Read() const {
  TokenTable tokens;
  if (path_.empty()) return tokens;
  const toml::table root = PIE_TRY(ReadPrivateToml(path_));
  for (const auto& [name, node] : root) {
    const toml::table* token = node.as_table();
    const auto hash = token != nullptr ? (*token)["hash"].value<std::string>() : std::nullopt;
    const auto user = token != nullptr ? (*token)["user"].value<std::string>() : std::nullopt;
    if (!hash || !user) {
      return Fail(Code::kInvalid, "{}:{}: the token '{}' must be a table with a hash and a user",
                  path_, node.source().begin.line, name.str());
    }
    tokens[*hash] = {std::string(name.str()), *user,
                     (*token)["created"].value<std::string>().value_or("")};
  }
  return tokens;
}

Result<std::string> Tokens::Create(const std::string& user, const std::string& name) const {
  PIE_RETURN_IF_ERROR(CheckUsername(user));
  if (!CheckUsername(name)) {
    return Fail(Code::kInvalid,
                "the name of a token must have 1 to 128 bytes and no control characters");
  }
  const PrivateTomlLock lock = PIE_TRY(PrivateTomlLock::Take(path_));
  TokenTable tokens = PIE_TRY(Read());
  if (tokens.size() >= kMostTokens) {
    return Fail(Code::kExhausted, "there are {} tokens already; revoke some", tokens.size());
  }
  const auto same = [&](const auto& entry) { return entry.second.name == name; };
  if (std::ranges::any_of(tokens, same)) {
    return Fail(Code::kInvalid, "a token is named '{}' already; choose another --name", name);
  }
  const std::string key = NewKey();
  tokens[HashOf(key)] = {name, user, Today()};
  PIE_RETURN_IF_ERROR(Write(tokens));
  return key;
}

Status Tokens::Revoke(const std::string& name) const {
  const PrivateTomlLock lock = PIE_TRY(PrivateTomlLock::Take(path_));
  TokenTable tokens = PIE_TRY(Read());
  if (std::erase_if(tokens, [&](const auto& entry) { return entry.second.name == name; }) == 0) {
    return Fail(Code::kNotFound, "no token is named '{}'; see `pie auth token list`", name);
  }
  return Write(tokens);
}

Status Tokens::Write(const TokenTable& tokens) const {
  toml::table root;
  for (const auto& [hash, token] : tokens) {
    root.insert_or_assign(
        token.name, toml::table{{"user", token.user}, {"hash", hash}, {"created", token.created}});
  }
  std::ostringstream text;
  text << "# API keys of HTTP clients, as hashes. Written by `pie auth token`.\n" << root << "\n";
  return WriteWhole(path_, text.str(), 0600);
}

}  // namespace pie::server
