#include "server/public_key.h"

#include <openssl/core_names.h>
#include <openssl/decoder.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rand.h>
#include <openssl/x509.h>

#include <algorithm>

#include "host/hash.h"

namespace pie::server {
namespace {

constexpr int kLeastRsaBits = 2048;
constexpr int kMostRsaBits = 16'384;
constexpr size_t kMostKeyBytes = 16ull << 10;
constexpr std::string_view kAccepted =
    "use RSA (2048 bits or more), Ed25519 or ECDSA (P-256, P-384), in PEM or OpenSSH format";

template <class T, void (*Free)(T*)>
struct Freer {
  void operator()(T* pointer) const { Free(pointer); }
};
template <class T, void (*Free)(T*)>
using Owned = std::unique_ptr<T, Freer<T, Free>>;
using Key = std::shared_ptr<EVP_PKEY>;

const unsigned char* Raw(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Key Own(EVP_PKEY* key) {
  return key == nullptr ? nullptr : Key(key, EVP_PKEY_free);
}

Key FromPem(std::string_view text) {
  EVP_PKEY* key = nullptr;
  Owned<OSSL_DECODER_CTX, OSSL_DECODER_CTX_free> decoder(OSSL_DECODER_CTX_new_for_pkey(
      &key, "PEM", nullptr, nullptr, EVP_PKEY_PUBLIC_KEY, nullptr, nullptr));
  const unsigned char* data = Raw(text);
  size_t size = text.size();
  if (!decoder || OSSL_DECODER_from_data(decoder.get(), &data, &size) != 1) return nullptr;
  return Own(key);
}

// Reads the fields of an OpenSSH key: a length of four bytes, then the bytes.
class SshReader {
 public:
  explicit SshReader(std::string_view bytes) : left_(bytes) {}
  std::string_view Next() {
    if (left_.size() < 4) return {};
    uint32_t size = 0;
    for (size_t i = 0; i < 4; ++i) size = size << 8 | Raw(left_)[i];
    left_.remove_prefix(4);
    if (size > left_.size()) return left_ = {};
    const std::string_view piece = left_.substr(0, size);
    left_.remove_prefix(size);
    return piece;
  }

 private:
  std::string_view left_;
};

Key FromParams(const char* type, OSSL_PARAM_BLD* builder) {
  Owned<OSSL_PARAM, OSSL_PARAM_free> params(OSSL_PARAM_BLD_to_param(builder));
  Owned<EVP_PKEY_CTX, EVP_PKEY_CTX_free> context(
      EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  if (!params || !context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, params.get()) != 1) {
    return nullptr;
  }
  return Own(key);
}

Key RsaFromSsh(SshReader& reader) {
  const std::string_view e = reader.Next();
  const std::string_view n = reader.Next();
  if (e.empty() || n.empty()) return nullptr;
  Owned<BIGNUM, BN_free> exponent(BN_bin2bn(Raw(e), static_cast<int>(e.size()), nullptr));
  Owned<BIGNUM, BN_free> modulus(BN_bin2bn(Raw(n), static_cast<int>(n.size()), nullptr));
  Owned<OSSL_PARAM_BLD, OSSL_PARAM_BLD_free> builder(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, exponent.get());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, modulus.get());
  return FromParams("RSA", builder.get());
}

Key EcFromSsh(SshReader& reader) {
  const std::string_view curve = reader.Next();
  const std::string_view point = reader.Next();
  const char* group = curve == "nistp256" ? "P-256" : curve == "nistp384" ? "P-384" : nullptr;
  if (group == nullptr || point.empty()) return nullptr;
  Owned<OSSL_PARAM_BLD, OSSL_PARAM_BLD_free> builder(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, group, 0);
  OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                   point.size());
  return FromParams("EC", builder.get());
}

Key FromSsh(std::string_view text) {
  const size_t begin = text.find(' ') + 1;
  auto bytes = Base64Decode(text.substr(begin, text.find_first_of(" \r\n\t", begin) - begin));
  if (!bytes) return nullptr;
  SshReader reader(*bytes);
  const std::string_view type = reader.Next();
  if (type == "ssh-rsa") return RsaFromSsh(reader);
  if (type.starts_with("ecdsa-sha2-")) return EcFromSsh(reader);
  if (type != "ssh-ed25519") return nullptr;
  const std::string_view raw = reader.Next();
  return Own(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, Raw(raw), raw.size()));
}

// Converts an ECDSA signature of two concatenated numbers, as some libraries write it, to DER.
std::string ToDer(std::string_view pair) {
  const auto half = static_cast<int>(pair.size() / 2);
  Owned<ECDSA_SIG, ECDSA_SIG_free> signature(ECDSA_SIG_new());
  ECDSA_SIG_set0(signature.get(), BN_bin2bn(Raw(pair), half, nullptr),
                 BN_bin2bn(Raw(pair) + half, half, nullptr));
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(signature.get(), &der);
  std::string text(reinterpret_cast<char*>(der), size > 0 ? static_cast<size_t>(size) : 0);
  OPENSSL_free(der);
  return text;
}

bool VerifyWith(EVP_PKEY* key, const EVP_MD* digest, std::string_view message,
                std::string_view signature) {
  Owned<EVP_MD_CTX, EVP_MD_CTX_free> context(EVP_MD_CTX_new());
  return EVP_DigestVerifyInit(context.get(), nullptr, digest, nullptr, key) == 1 &&
         EVP_DigestVerify(context.get(), Raw(signature), signature.size(), Raw(message),
                          message.size()) == 1;
}

}  // namespace

Result<PublicKey> PublicKey::Parse(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  text.remove_prefix(std::min(first, text.size()));
  if (text.size() > kMostKeyBytes)
    return Fail(Code::kInvalid, "the text is too long for a public key");
  if (text.find("PRIVATE KEY") != std::string_view::npos) {
    return Fail(Code::kInvalid, "this is a private key: keep it secret, and use its public key");
  }
  const bool pem = text.starts_with("-----BEGIN");
  PublicKey key(pem ? FromPem(text) : FromSsh(text));
  if (!key.key_) return Fail(Code::kInvalid, "this is not a public key: {}", kAccepted);
  PIE_RETURN_IF_ERROR(key.Classify());
  return key;
}

Status PublicKey::Classify() {
  EVP_PKEY* key = key_.get();
  const int bits = EVP_PKEY_get_bits(key);
  if (EVP_PKEY_is_a(key, "RSA") == 1) {
    if (bits < kLeastRsaBits || bits > kMostRsaBits) {
      return Fail(Code::kInvalid, "RSA keys must have {} to {} bits; this one has {}",
                  kLeastRsaBits, kMostRsaBits, bits);
    }
    kind_ = fmt::format("RSA {}", bits);
    return {};
  }
  if (EVP_PKEY_is_a(key, "ED25519") == 1) {
    kind_ = "Ed25519";
    return {};
  }
  char group[32] = {};
  if (EVP_PKEY_is_a(key, "EC") == 1 &&
      EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, group, sizeof group,
                                     nullptr) == 1) {
    const std::string_view name = group;
    if (name == "prime256v1" || name == "P-256") kind_ = "ECDSA P-256";
    if (name == "secp384r1" || name == "P-384") kind_ = "ECDSA P-384";
    if (!kind_.empty()) return {};
  }
  return Fail(Code::kInvalid, "this kind of key is not supported: {}", kAccepted);
}

bool PublicKey::Verify(std::string_view message, std::string_view signature) const {
  EVP_PKEY* key = key_.get();
  if (kind_ == "Ed25519") return VerifyWith(key, nullptr, message, signature);
  if (kind_.starts_with("RSA")) return VerifyWith(key, EVP_sha256(), message, signature);
  const size_t pair = kind_ == "ECDSA P-256" ? 64 : 96;
  const std::string der = signature.size() == pair ? ToDer(signature) : std::string(signature);
  return VerifyWith(key, EVP_sha256(), message, der) ||
         (pair == 96 && VerifyWith(key, EVP_sha384(), message, der));
}

std::string PublicKey::fingerprint() const {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key_.get(), &der);
  std::string text(reinterpret_cast<char*>(der), size > 0 ? static_cast<size_t>(size) : 0);
  OPENSSL_free(der);
  return host::Blake3Hex(text).substr(0, 16);
}

std::string Base64Encode(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), Raw(bytes),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

Result<std::string> Base64Decode(std::string_view text) {
  if (text.size() % 4 != 0 || text.size() > kMostKeyBytes * 2) {
    return Fail(Code::kInvalid, "this is not valid base64");
  }
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), Raw(text),
                                   static_cast<int>(text.size()));
  if (size < 0) return Fail(Code::kInvalid, "this is not valid base64");
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  bytes.resize(static_cast<size_t>(size) - padding);
  return bytes;
}

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  PIE_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) ==
            1);
  return bytes;
}

}  // namespace pie::server
