// PublicKey: a user's public key, read from PEM or from OpenSSH's one-line form, which verifies
// signatures: RSA (PKCS#1 v1.5, SHA-256, at least 2048 bits), Ed25519, ECDSA on P-256 and P-384.
// OpenSSL does the arithmetic. Immutable; any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

struct evp_pkey_st;

namespace pie::server {

class PublicKey {
 public:
  // Errors say what is wrong with the text, and what is accepted.
  static Result<PublicKey> Parse(std::string_view text);

  bool Verify(std::string_view message, std::string_view signature) const;
  const std::string& kind() const { return kind_; }  // "RSA 4096", "Ed25519", "ECDSA P-256"
  // Identifies a key: a hash of the key itself, whatever form it was written in.
  std::string fingerprint() const;

 private:
  explicit PublicKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}
  Status Classify();
  std::shared_ptr<evp_pkey_st> key_;
  std::string kind_;
};

std::string Base64Encode(std::string_view bytes);
Result<std::string> Base64Decode(std::string_view text);
std::string RandomBytes(size_t count);  // cryptographically secure

}  // namespace pie::server
