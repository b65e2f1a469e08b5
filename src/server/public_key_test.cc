// Keys and signatures made by the tools of OpenSSL and OpenSSH, which serve as the reference.
#include "server/public_key.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <memory>

namespace pie::server {
namespace {

using Key = std::shared_ptr<EVP_PKEY>;

Key Generate(const char* type, const char* detail = nullptr, size_t bits = 0) {
  EVP_PKEY* key = nullptr;
  if (detail != nullptr)
    key = EVP_PKEY_Q_keygen(nullptr, nullptr, type, detail);
  else if (bits != 0)
    key = EVP_PKEY_Q_keygen(nullptr, nullptr, type, bits);
  else
    key = EVP_PKEY_Q_keygen(nullptr, nullptr, type);
  return {key, EVP_PKEY_free};
}

std::string Pem(const Key& key) {
  std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_PUBKEY(out.get(), key.get());
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<size_t>(size)};
}

std::string Sign(const Key& key, const EVP_MD* digest, std::string_view message) {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                  EVP_MD_CTX_free);
  EVP_DigestSignInit(context.get(), nullptr, digest, nullptr, key.get());
  size_t size = 0;
  const auto* data = reinterpret_cast<const unsigned char*>(message.data());
  EVP_DigestSign(context.get(), nullptr, &size, data, message.size());
  std::string signature(size, '\0');
  EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, data,
                 message.size());
  signature.resize(size);
  return signature;
}

struct Case {
  const char* type;
  const char* detail;
  size_t bits;
  const EVP_MD* digest;
  const char* kind;
};

TEST(PublicKey, VerifiesSignaturesOfEveryKind) {
  const Case cases[] = {{"RSA", nullptr, 2048, EVP_sha256(), "RSA 2048"},
                        {"RSA", nullptr, 3072, EVP_sha256(), "RSA 3072"},
                        {"ED25519", nullptr, 0, nullptr, "Ed25519"},
                        {"EC", "P-256", 0, EVP_sha256(), "ECDSA P-256"},
                        {"EC", "P-384", 0, EVP_sha256(), "ECDSA P-384"},
                        {"EC", "P-384", 0, EVP_sha384(), "ECDSA P-384"}};
  for (const Case& c : cases) {
    const Key secret = Generate(c.type, c.detail, c.bits);
    auto key = PublicKey::Parse(Pem(secret));
    ASSERT_TRUE(key) << c.kind << ": " << key.error().text;
    EXPECT_EQ(key->kind(), c.kind);
    std::string signature = Sign(secret, c.digest, "challenge");
    EXPECT_TRUE(key->Verify("challenge", signature)) << c.kind;
    EXPECT_FALSE(key->Verify("challengf", signature)) << c.kind;
    EXPECT_FALSE(key->Verify("challenge", "")) << c.kind;
    signature[signature.size() / 2] ^= 1;
    EXPECT_FALSE(key->Verify("challenge", signature)) << c.kind;
    const Key other = Generate(c.type, c.detail, c.bits);
    EXPECT_FALSE(key->Verify("challenge", Sign(other, c.digest, "challenge"))) << c.kind;
  }
}

// Keys made by ssh-keygen.
TEST(PublicKey, ReadsTheFormatOfOpenSsh) {
  const std::pair<const char*, const char*> keys[] = {
      {"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC40DM8hKwZPfX+CsZB3/FZcw7QE9KurmCB/gD2LZ9q"
       "Htts/rWaV0Tgxwe+sQUtfUpgcaN1Q74S1RAmcpuBTv7cbtb1Uq/ZmzYprJOEKjmXujgYNLInAffeHPrV"
       "eXw+RRqYZRqgYxnd8ZfQ1SFT0LAk0bFYXWx4mCSOTLgnwMa6KOWxweHitZDGNBqxc7nrqiJ9EC+Rx2aY"
       "eYC/v4fQX8ShODCrCioDIBbPOIxrulFgFZKAxi8Kwev5SR+m+z/+b3oBurQ+cwGXn1RypKSh6MiS5cLZ"
       "fg7Cm5RemTj1QxWhgftE7Z58QcpO+QW1L/R9fSjXqiY+Y0GuB7EorVEknDSN ada@home",
       "RSA 2048"},
      {"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAa22JFls4rrvGeUayT3ttBJN10T1C962L0lvyFnsRJD"
       " ada@home",
       "Ed25519"},
      {"ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBAFA6JsI"
       "nD7fVKg8zD1J3YKOEvXOSVrPr2ItOTzVrhs9xf6VB0YG+qyvT3qpxLxXLm+1Adsxn/fq2qfBW0oYje0="
       " ada@home",
       "ECDSA P-256"},
      {"ecdsa-sha2-nistp384 AAAAE2VjZHNhLXNoYTItbmlzdHAzODQAAAAIbmlzdHAzODQAAABhBLTEsT4O"
       "89CMmfud147bB5isIEWfktAesleAryXv6M1kr2tf1oU0IG/RIvHAypgfxhwAgRk1bazvdEAZj3FJHnKv"
       "XF0G9b9KYmPJQmiLK70O1yP6xfzPrV2H865JPfDyZA== ada@home",
       "ECDSA P-384"},
  };
  for (const auto& [text, kind] : keys) {
    auto key = PublicKey::Parse(text);
    ASSERT_TRUE(key) << key.error().text;
    EXPECT_EQ(key->kind(), kind);
  }
}

TEST(PublicKey, RefusesInvalidKeys) {
  EXPECT_FALSE(PublicKey::Parse(""));
  EXPECT_FALSE(PublicKey::Parse("hello"));
  EXPECT_FALSE(PublicKey::Parse("ssh-rsa AAAA"));
  EXPECT_FALSE(PublicKey::Parse("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA////"));
  EXPECT_FALSE(PublicKey::Parse("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"));
  EXPECT_FALSE(PublicKey::Parse(std::string(100'000, 'A')));
  EXPECT_FALSE(PublicKey::Parse(Pem(Generate("RSA", nullptr, 1024))));
  EXPECT_FALSE(PublicKey::Parse(Pem(Generate("EC", "P-521"))));
  EXPECT_FALSE(PublicKey::Parse(Pem(Generate("ED448"))));
  auto secret = PublicKey::Parse("-----BEGIN PRIVATE KEY-----\nAAAA\n");
  ASSERT_FALSE(secret);
  EXPECT_NE(secret.error().text.find("private key"), std::string::npos);
}

TEST(Base64, RoundTrips) {
  for (const std::string text : {"", "a", "ab", "abc", "abcd", "\xff\xfe\x01"}) {
    EXPECT_EQ(Base64Decode(Base64Encode(text)), text);
  }
  EXPECT_EQ(Base64Encode("hello"), "aGVsbG8=");
  EXPECT_FALSE(Base64Decode("aGVsbG8"));
  EXPECT_FALSE(Base64Decode("a!!="));
}

}  // namespace
}  // namespace pie::server
