// Parses a private key in OpenSSH's format into its parts.
#pragma once

#include <string>
#include <string_view>

namespace pie_client {

struct OpenSshKey {
  std::string type;     // ssh-ed25519, ssh-rsa, ecdsa-…
  std::string seed;     // Ed25519
  std::string n, e, d;  // RSA, big-endian
  std::string curve;    // ECDSA: nistp256, …
  std::string point;    //
  std::string secret;   //
};

// Parses the decoded bytes of the PEM text. Throws KeyError.
OpenSshKey ParseOpenSsh(std::string_view bytes);

}  // namespace pie_client
