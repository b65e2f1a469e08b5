#include "openssh.h"

#include <cstdint>

#include "pie_client/errors.h"

namespace pie_client {
namespace {

constexpr std::string_view kMagic("openssh-key-v1\0", 15);

// Reads pieces, each of which is a length of four bytes and the bytes.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}
  uint32_t Number() {
    uint32_t number = 0;
    for (const char byte : Take(4)) number = number << 8 | static_cast<uint8_t>(byte);
    return number;
  }
  std::string_view Piece() { return Take(Number()); }
  std::string_view Take(size_t size) {
    if (size > left_.size()) throw KeyError("the private key is truncated");
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }

 private:
  std::string_view left_;
};

}  // namespace

OpenSshKey ParseOpenSsh(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) throw KeyError("the text is not in OpenSSH's format");
  Reader outer(bytes.substr(kMagic.size()));
  if (outer.Piece() != "none") {
    throw KeyError("the private key is encrypted: remove its passphrase (ssh-keygen -p)");
  }
  outer.Piece();  // the parameters of encryption
  outer.Piece();
  if (outer.Number() != 1) throw KeyError("the file must hold exactly one private key");
  outer.Piece();  // the public key
  Reader key(outer.Piece());
  key.Take(8);  // two equal check numbers
  OpenSshKey parts{.type = std::string(key.Piece())};
  if (parts.type == "ssh-ed25519") {
    key.Piece();
    parts.seed = key.Piece().substr(0, 32);
  } else if (parts.type == "ssh-rsa") {
    parts.n = key.Piece();
    parts.e = key.Piece();
    parts.d = key.Piece();
  } else if (parts.type.starts_with("ecdsa-")) {
    parts.curve = key.Piece();
    parts.point = key.Piece();
    parts.secret = key.Piece();
  }
  return parts;
}

}  // namespace pie_client
