// The identity of a server that speaks TLS itself: the hash of its certificate. A client sees the
// same certificate, unless an attacker is in between.
#pragma once

#include <string>

#include "base/result.h"

namespace pie::server {

// The SHA-256 of the first certificate in a PEM file, in DER form: 32 bytes.
Result<std::string> CertificateHash(const std::string& path);

}  // namespace pie::server
