#include "cli/auth_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "cli/config.h"
#include "cli/terminal.h"
#include "server/tokens.h"
#include "server/users.h"

namespace pie::cli {
namespace {

constexpr size_t kMostBytes = 64ull << 10;

server::AuthorizedUsers Users() {
  return server::AuthorizedUsers(HomeDir() + "/authorized_users.toml");
}

server::Tokens Tokens() {
  return server::Tokens(HomeDir() + "/api_tokens.toml");
}

Result<std::string> ReadKey(const std::string& file) {
  std::string text;
  if (file == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    std::error_code error;
    const auto size = std::filesystem::file_size(file, error);
    if (error) return Fail(Code::kNotFound, "cannot read {}: {}", file, error.message());
    if (size > kMostBytes) return Fail(Code::kInvalid, "{} is too long for a key", file);
    std::ifstream stream(file, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(stream), {});
  }
  return text;
}

Status Add(const std::string& user, const std::string& file, const std::string& name) {
  const std::string text = PIE_TRY(ReadKey(file));
  const auto key = PIE_TRY(server::PublicKey::Parse(text));
  const std::string known = name.empty() ? key.fingerprint() : name;
  PIE_RETURN_IF_ERROR(Users().Add(user, known, text));
  fmt::print("{} may connect with '{}' ({})\n", user, known, key.kind());
  return {};
}

Status List() {
  const auto users = PIE_TRY(Users().Read());
  if (users.empty()) fmt::print("no users yet; add one with: pie auth add NAME KEY.pub\n");
  for (const auto& [user, keys] : users) {
    for (const server::UserKey& key : keys) {
      fmt::print("{:<20} {:<20} {:<12} {}\n", user, key.name, key.key.kind(),
                 key.key.fingerprint());
    }
  }
  return {};
}

}  // namespace

int AddKey(const std::string& user, const std::string& file, const std::string& name) {
  return ExitCode(Add(user, file, name));
}

int RemoveKey(const std::string& user, const std::string& name) {
  const Status removed = Users().Remove(user, name);
  if (removed) fmt::print("removed\n");
  return ExitCode(removed);
}

int CreateToken(const std::string& user, const std::string& name) {
  const auto key = Tokens().Create(user, name.empty() ? user : name);
  if (!key) return ReportError(key.error().text);
  // The key alone goes to stdout, for scripts.
  fmt::print("{}\n", *key);
  fmt::print(stderr, "{}\n",
             Dim("the key of " + user +
                 "; it is not shown again. Requests carry it as "
                 "Authorization: Bearer <key>"));
  return 0;
}

int ListTokens() {
  const auto tokens = Tokens().Read();
  if (!tokens) return ReportError(tokens.error().text);
  if (tokens->empty()) fmt::print("no tokens yet; make one with: pie auth token create USER\n");
  for (const auto& [hash, token] : *tokens) {
    fmt::print("{:<20} {:<20} {:<12} {}…\n", token.name, token.user, token.created,
               hash.substr(0, 8));
  }
  return 0;
}

int RevokeToken(const std::string& name) {
  const Status revoked = Tokens().Revoke(name);
  if (revoked) fmt::print("revoked\n");
  return ExitCode(revoked);
}

int ListKeys() {
  return ExitCode(List());
}

}  // namespace pie::cli
