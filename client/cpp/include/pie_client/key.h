// ParsedPrivateKey: a private key. Copies share it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace pie_client {

// A private key that proves a username.
class ParsedPrivateKey {
 public:
  // Parses the text of a key: PEM (PKCS#8, PKCS#1, SEC1) or OpenSSH's format; RSA, Ed25519, ECDSA
  // P-256 and P-384. Throws KeyError if it is not accepted.
  static ParsedPrivateKey Parse(std::string_view text);
  // Reads a key file.
  static ParsedPrivateKey Load(const std::string& path);

  // `RSA`, `Ed25519`, `ECDSA P-256` or `ECDSA P-384`.
  const std::string& kind() const { return kind_; }
  // The signature of a message, as the server expects it for this kind of key.
  std::string Sign(std::string_view message) const;

 private:
  ParsedPrivateKey(std::shared_ptr<void> key, std::string kind)
      : key_(std::move(key)), kind_(std::move(kind)) {}

  std::shared_ptr<void> key_;  // an EVP_PKEY of OpenSSL
  std::string kind_;
};

}  // namespace pie_client
