#include "pie_client/key.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

#include "base64.h"
#include "openssh.h"
#include "pie_client/errors.h"

namespace pie_client {
namespace {

constexpr int kLeastRsaBits = 2048;
constexpr std::string_view kAccepted =
    "use RSA (2048 bits or more), Ed25519 or ECDSA (P-256, P-384), as PEM or in OpenSSH's format";

using Key = std::shared_ptr<EVP_PKEY>;
template <class T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

const unsigned char* Raw(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Key Own(EVP_PKEY* key) {
  return key == nullptr ? nullptr : Key(key, EVP_PKEY_free);
}

// Keeps OpenSSL from asking for a passphrase on the terminal.
int NoPassphrase(char*, int, int, void*) {
  return -1;
}

Key FromPem(std::string_view text) {
  Owned<BIO> bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())),
                 [](BIO* b) { BIO_free(b); });
  return Own(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
}

class Builder {
 public:
  void Number(const char* name, std::string_view bytes) {
    numbers_.emplace_back(BN_bin2bn(Raw(bytes), static_cast<int>(bytes.size()), nullptr), BN_free);
    OSSL_PARAM_BLD_push_BN(builder_.get(), name, numbers_.back().get());
  }
  void Text(const char* name, const char* text) {
    OSSL_PARAM_BLD_push_utf8_string(builder_.get(), name, text, 0);
  }
  void Bytes(const char* name, std::string_view bytes) {
    OSSL_PARAM_BLD_push_octet_string(builder_.get(), name, bytes.data(), bytes.size());
  }
  Key Build(const char* type) {
    Owned<OSSL_PARAM> params(OSSL_PARAM_BLD_to_param(builder_.get()), OSSL_PARAM_free);
    Owned<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr),
                                EVP_PKEY_CTX_free);
    EVP_PKEY* key = nullptr;
    if (!params || !context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
        EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_KEYPAIR, params.get()) != 1) {
      return nullptr;
    }
    return Own(key);
  }

 private:
  Owned<OSSL_PARAM_BLD> builder_{OSSL_PARAM_BLD_new(), OSSL_PARAM_BLD_free};
  std::vector<Owned<BIGNUM>> numbers_;
};

Key FromOpenSsh(const OpenSshKey& parts) {
  Builder builder;
  if (parts.type == "ssh-ed25519") {
    return Own(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, Raw(parts.seed),
                                            parts.seed.size()));
  }
  if (parts.type == "ssh-rsa") {
    builder.Number(OSSL_PKEY_PARAM_RSA_N, parts.n);
    builder.Number(OSSL_PKEY_PARAM_RSA_E, parts.e);
    builder.Number(OSSL_PKEY_PARAM_RSA_D, parts.d);
    return builder.Build("RSA");
  }
  if (parts.curve != "nistp256" && parts.curve != "nistp384") return nullptr;
  builder.Text(OSSL_PKEY_PARAM_GROUP_NAME, parts.curve == "nistp256" ? "P-256" : "P-384");
  builder.Bytes(OSSL_PKEY_PARAM_PUB_KEY, parts.point);
  builder.Number(OSSL_PKEY_PARAM_PRIV_KEY, parts.secret);
  return builder.Build("EC");
}

// Returns the text between the first line and the last.
std::string BodyOf(std::string_view text) {
  const size_t begin = text.find("-----", text.find("BEGIN"));
  const size_t end = text.find("-----END");
  if (begin == std::string_view::npos || end == std::string_view::npos || begin + 5 > end) {
    throw KeyError("the private key is truncated");
  }
  std::string body(text.substr(begin + 5, end - begin - 5));
  std::erase_if(body, [](unsigned char c) { return std::isspace(c) != 0; });
  return body;
}

std::string KindOf(EVP_PKEY* key) {
  if (EVP_PKEY_is_a(key, "ED25519") == 1) return "Ed25519";
  if (EVP_PKEY_is_a(key, "RSA") == 1) {
    if (EVP_PKEY_get_bits(key) < kLeastRsaBits) {
      throw KeyError("the RSA key is too short: " + std::string(kAccepted));
    }
    return "RSA";
  }
  char group[32] = {};
  if (EVP_PKEY_is_a(key, "EC") == 1 &&
      EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, group, sizeof group,
                                     nullptr) == 1) {
    const std::string_view name = group;
    if (name == "prime256v1" || name == "P-256") return "ECDSA P-256";
    if (name == "secp384r1" || name == "P-384") return "ECDSA P-384";
  }
  throw KeyError("keys of this kind are not accepted: " + std::string(kAccepted));
}

}  // namespace

ParsedPrivateKey ParsedPrivateKey::Parse(std::string_view text) {
  Key key;
  if (text.find("BEGIN OPENSSH PRIVATE KEY") != std::string_view::npos) {
    const auto bytes = FromBase64(BodyOf(text));
    if (!bytes) throw KeyError("the private key is not valid base64");
    key = FromOpenSsh(ParseOpenSsh(*bytes));
  } else {
    key = FromPem(text);
  }
  if (!key) {
    throw KeyError("cannot read the private key (if it has a passphrase, remove it): " +
                   std::string(kAccepted));
  }
  std::string kind = KindOf(key.get());
  return {std::move(key), std::move(kind)};
}

ParsedPrivateKey ParsedPrivateKey::Load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw KeyError("cannot read the private key file " + path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return Parse(text);
}

std::string ParsedPrivateKey::Sign(std::string_view message) const {
  auto* key = static_cast<EVP_PKEY*>(key_.get());
  Owned<EVP_MD_CTX> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  const EVP_MD* digest = kind_ == "Ed25519" ? nullptr : EVP_sha256();
  size_t size = 0;
  std::string signature;
  if (EVP_DigestSignInit(context.get(), nullptr, digest, nullptr, key) == 1 &&
      EVP_DigestSign(context.get(), nullptr, &size, Raw(message), message.size()) == 1) {
    signature.resize(size);
    if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                       Raw(message), message.size()) == 1) {
      signature.resize(size);
      return signature;
    }
  }
  throw KeyError("signing with the private key failed");
}

}  // namespace pie_client
