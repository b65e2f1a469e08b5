#include "server/certificate.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <array>
#include <memory>

namespace pie::server {

Result<std::string> CertificateHash(const std::string& path) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> file(BIO_new_file(path.c_str(), "r"), BIO_free);
  if (!file) return Fail(Code::kInvalid, "cannot read the certificate {}", path);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr), X509_free);
  if (!certificate) return Fail(Code::kInvalid, "{} holds no certificate in PEM form", path);
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned size = 0;
  if (X509_digest(certificate.get(), EVP_sha256(), hash.data(), &size) != 1) {
    return Fail(Code::kInternal, "cannot hash the certificate {}", path);
  }
  return std::string(reinterpret_cast<const char*>(hash.data()), size);
}

}  // namespace pie::server
