#include "server/upload.h"

#include <gtest/gtest.h>

#include "host/hash.h"

namespace pie::server {
namespace {

class UploadTest : public testing::Test {
 protected:
  UploadTest() { uploads.SetBudget(budget); }
  Result<std::optional<std::string>> Add(uint32_t index, uint32_t total, std::string_view data,
                                         const std::string& hash) {
    auto whole = PIE_TRY(uploads.Add(hash, {hash, index, total, data}, 100));
    if (!whole) return std::nullopt;
    EXPECT_EQ(budget->used(), whole->bytes.size()) << "the finished upload is charged";
    PIE_RETURN_IF_ERROR(CheckHash(whole->bytes, hash));
    return std::move(whole->bytes);
  }
  Limits limits;
  std::shared_ptr<host::ByteBudget> budget = std::make_shared<host::ByteBudget>(150);
  Uploads uploads{limits};
};

TEST_F(UploadTest, AssemblesChunks) {
  const std::string hash = host::Blake3Hex("abcdef");
  EXPECT_FALSE(*Add(0, 3, "ab", hash));
  EXPECT_FALSE(*Add(1, 3, "cd", hash));
  EXPECT_EQ(**Add(2, 3, "ef", hash), "abcdef");
  EXPECT_EQ(budget->used(), 0u);
  EXPECT_EQ(**Add(0, 1, "", host::Blake3Hex("")), "");
}

TEST_F(UploadTest, RefusesAWrongHash) {
  EXPECT_FALSE(Add(0, 1, "abc", host::Blake3Hex("abd")));
  EXPECT_FALSE(Add(0, 1, "abc", "no hash"));
  EXPECT_EQ(budget->used(), 0u);
}

TEST_F(UploadTest, RefusesWrongOrderCountsAndSizes) {
  EXPECT_FALSE(Add(1, 3, "x", "skips the first"));
  EXPECT_FALSE(Add(0, 0, "x", "none"));
  EXPECT_FALSE(Add(5, 5, "x", "past the end"));
  EXPECT_TRUE(Add(0, 3, "x", "changes its mind"));
  EXPECT_FALSE(Add(1, 4, "x", "changes its mind"));
  EXPECT_TRUE(Add(0, 3, "x", "twice"));
  EXPECT_TRUE(Add(1, 3, "x", "twice"));
  EXPECT_FALSE(Add(1, 3, "x", "twice"));
  EXPECT_FALSE(Add(0, 1, std::string(101, 'x'), "long"));
  EXPECT_FALSE(Add(0, 4'000'000'000, "xxxx", "longer"));
  EXPECT_EQ(budget->used(), 0u);
}

TEST_F(UploadTest, IgnoresTheRestOfAFailedUpload) {
  EXPECT_FALSE(Add(0, 3, std::string(101, 'x'), "h"));
  EXPECT_TRUE(uploads.Ignored("h", {"h", 1, 3, "x"}));
  EXPECT_TRUE(uploads.Ignored("h", {"h", 2, 3, "x"}));
  EXPECT_FALSE(uploads.Ignored("h", {"h", 0, 3, "x"})) << "a new upload";
  EXPECT_EQ(uploads.size(), 0u);
}

TEST_F(UploadTest, AllUploadsShareABudget) {
  EXPECT_TRUE(Add(0, 2, std::string(90, 'x'), "a"));
  EXPECT_FALSE(Add(0, 2, std::string(90, 'x'), "b"));
  EXPECT_EQ(budget->used(), 90u);
}

TEST_F(UploadTest, LimitsUploadsInFlight) {
  for (size_t i = 0; i < limits.max_uploads_per_connection; ++i) {
    EXPECT_TRUE(Add(0, 2, "x", std::to_string(i)));
  }
  EXPECT_FALSE(Add(0, 2, "x", "one more"));
}

}  // namespace
}  // namespace pie::server
