#include "server/auth.h"

#include <openssl/crypto.h>
#include <sys/stat.h>

#include <cstring>
#include <iterator>
#include <set>

#include "host/hash.h"

namespace pie::server {
namespace {

constexpr size_t kChallengeBytes = 48;
constexpr size_t kTokenBytes = 32;

int64_t ChangedAt(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return 0;
  return status.st_ctim.tv_sec * 1'000'000'000LL + status.st_ctim.tv_nsec;
}

}  // namespace

Auth::Auth(bool enabled, std::string users_path, std::string tokens_path)
    : enabled_(enabled),
      users_(std::move(users_path)),
      tokens_(std::move(tokens_path)),
      token_(Base64Encode(RandomBytes(kTokenBytes))) {}

std::string Auth::NewChallenge() const {
  if (binding_.empty()) return Base64Encode(RandomBytes(kChallengeBytes));
  return Base64Encode(std::string(kBinds) + RandomBytes(kChallengeBytes - kBinds.size()));
}

Result<std::shared_ptr<const UserTable>> Auth::Current() {
  const int64_t changed_ns = ChangedAt(users_.path());
  if (changed_ns != read_at_ns_) {
    table_ = std::make_shared<const UserTable>(PIE_TRY(users_.Read()));
    read_at_ns_ = changed_ns;
  }
  return table_;
}

Status Auth::Verify(std::string_view user, std::string_view challenge, std::string_view signature) {
  const auto refused =
      Fail(Code::kInvalid, "authentication failed: the signature matches no key of this user");
  const auto bytes = Base64Decode(signature);
  const auto signed_bytes = Base64Decode(challenge);
  if (!bytes || !signed_bytes) return refused;
  std::shared_ptr<const UserTable> users;
  {
    std::lock_guard lock(mutex_);
    users = PIE_TRY(Current());
  }
  bool exists = false;
  const std::vector<UserKey>* keys = KeysToTry(*users, user, &exists);
  if (keys == nullptr) return refused;
  for (const UserKey& key : *keys) {
    // Clients sign the decoded challenge, bound to the certificate or not, or its base64 text.
    const bool right = key.key.Verify(*signed_bytes, *bytes) || key.key.Verify(challenge, *bytes) ||
                       (!binding_.empty() && key.key.Verify(*signed_bytes + binding_, *bytes));
    if (right && exists) return {};
  }
  return refused;
}

const std::vector<UserKey>* Auth::KeysToTry(const UserTable& users, std::string_view user,
                                            bool* exists) const {
  const auto found = users.find(user);
  *exists = found != users.end();
  if (*exists) return &found->second;
  if (users.empty()) return nullptr;
  // The internal token is secret, so a stranger cannot tell which user's keys are used in place of
  // those of an unknown user.
  const auto hash = host::Blake3(token_ + std::string(user));
  size_t number = 0;
  std::memcpy(&number, hash.data(), sizeof(number));
  return &std::next(users.begin(), static_cast<std::ptrdiff_t>(number % users.size()))->second;
}

Result<size_t> Auth::CountUsers() const {
  std::set<std::string> names;
  for (const auto& [name, keys] : PIE_TRY(users_.Read())) names.insert(name);
  if (!tokens_.path().empty()) {
    for (const auto& [hash, token] : PIE_TRY(tokens_.Read())) names.insert(token.user);
  }
  return names.size();
}

std::optional<std::string> Auth::UserOf(std::string_view key) {
  return enabled_ ? UserOfToken(key) : std::string(kLocalUser);
}

std::optional<std::string> Auth::UserOfToken(std::string_view key) {
  if (key.empty()) return std::nullopt;
  if (IsToken(key)) return std::string(kInternalUser);
  std::lock_guard lock(mutex_);
  const int64_t changed_ns = ChangedAt(tokens_.path());
  if (changed_ns != tokens_read_at_ns_) {
    auto read = tokens_.Read();
    if (!read) return std::nullopt;
    token_table_ = *std::move(read);
    tokens_read_at_ns_ = changed_ns;
  }
  const auto found = token_table_.find(Tokens::HashOf(key));
  if (found == token_table_.end()) return std::nullopt;
  return found->second.user;
}

bool Auth::IsToken(std::string_view token) const {
  return token.size() == token_.size() &&
         CRYPTO_memcmp(token.data(), token_.data(), token_.size()) == 0;
}

}  // namespace pie::server
