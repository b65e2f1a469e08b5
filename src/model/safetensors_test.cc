#include "model/safetensors.h"

#include <gtest/gtest.h>

#include <ctime>
#include <fstream>

#include "base/random.h"

namespace pie {
namespace {

using Shape = std::vector<uint64_t>;

std::string File(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header + data;
}

constexpr char kHeader[] = R"({"__metadata__":{"format":"pt"},)"
                           R"("a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                           R"("b.weight":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},)"
                           R"("scale":{"dtype":"F16","shape":[],"data_offsets":[32,34]}}   )";

std::string Sample() {
  return File(kHeader, std::string(24, 'a') + std::string(8, 'b') + "cc");
}

Result<Safetensors> Parse(const std::string& bytes) {
  return Safetensors::Parse(std::as_bytes(std::span(bytes)), "test.safetensors");
}

// Parses a file with one tensor, "t", of the given header entry, over 8 bytes of data.
std::string ErrorOf(const std::string& entry) {
  const auto read = Parse(File("{\"t\":" + entry + "}", "12345678"));
  return read ? "no error" : read.error().text;
}

uint64_t Touch(const Safetensors& read) {
  uint64_t sum = 0;
  for (const Tensor& tensor : read.tensors().all()) {
    for (const std::byte byte : tensor.data) sum += std::to_integer<uint64_t>(byte);
  }
  return sum;
}

class Folder {
 public:
  Folder() : path_(testing::TempDir() + "safetensors_test") {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(SafetensorsTest, ReadsTensorsAndMetadata) {
  const std::string bytes = Sample();
  const auto read = Parse(bytes);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read->metadata().at("format"), "pt");
  ASSERT_EQ(read->tensors().size(), 3U);
  const Tensor* a = read->tensors().Find("a.weight");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype, DType::kF32);
  EXPECT_EQ(a->shape, (Shape{2, 3}));
  EXPECT_EQ(a->data.size(), 24U);
  const Tensor* b = read->tensors().Find("b.weight");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->dtype, DType::kBF16);
  EXPECT_EQ(b->data[0], std::byte{'b'});
  EXPECT_EQ(read->tensors().Find("scale")->shape, Shape{});
}

TEST(SafetensorsTest, MergesTheShardsOfAnIndex) {
  const Folder folder;
  const auto shard = [](const std::string& name, char fill) {
    return File(R"({")" + name + R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                std::string(8, fill));
  };
  folder.Write("model-00001-of-00002.safetensors", shard("a", '1'));
  folder.Write("model-00002-of-00002.safetensors", shard("b", '2'));
  const std::string index = "model.safetensors.index.json";
  folder.Write(index, R"({"metadata":{"total_size":16},"weight_map":{
      "a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})");
  for (const auto& path : {folder.path(), folder.path() / index}) {
    const auto read = Safetensors::Open(path);
    ASSERT_TRUE(read) << read.error().text;
    EXPECT_EQ(read->tensors().size(), 2U);
    EXPECT_EQ(read->tensors().Find("a")->data[7], std::byte{'1'});
    EXPECT_EQ(read->tensors().Find("b")->data[7], std::byte{'2'});
  }
  const auto error = [&](const std::string& json) {
    folder.Write(index, json);
    const auto read = Safetensors::Open(folder.path());
    return read ? "no error" : read.error().text;
  };
  const std::string one = "model-00001-of-00002.safetensors";
  EXPECT_NE(error(R"({"weight_map":{"z":")" + one + R"("}})").find("tensor 'z' is not in model-00"),
            std::string::npos);
  EXPECT_NE(error(R"({"weight_map":{"a":"none.safetensors"}})").find("cannot be opened"),
            std::string::npos);
  for (const char* away : {"../a.safetensors", "/etc/passwd", "..", "", "a\\\\b", "a\\u0000b"}) {
    EXPECT_NE(error(R"({"weight_map":{"a":")" + std::string(away) + R"("}})")
                  .find("in the folder of the index"),
              std::string::npos)
        << away;
  }
  EXPECT_NE(error("{}").find("no weight_map"), std::string::npos);
}

TEST(SafetensorsTest, OpensTheFileOfAFolder) {
  const Folder folder;
  EXPECT_EQ(Safetensors::Open(folder.path()).error().code, Code::kNotFound);
  folder.Write("model.safetensors", Sample());
  const auto read = Safetensors::Open(folder.path());
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(Touch(*read), 24U * 'a' + 8U * 'b' + 2U * 'c');
}

TEST(SafetensorsTest, ErrorsNameTheTensorAndTheField) {
  const auto expect = [](const std::string& entry, const std::string& part) {
    const std::string error = ErrorOf(entry);
    EXPECT_EQ(error.find("test.safetensors: "), 0U) << error;
    EXPECT_NE(error.find(part), std::string::npos) << error << "\nlacks: " << part;
  };
  EXPECT_EQ(ErrorOf(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})"), "no error");
  expect("7", "tensor 't': its dtype is missing");
  expect(R"({"dtype":"F8_E5M2","shape":[8],"data_offsets":[0,8]})", "dtype 'F8_E5M2'");
  expect(R"({"dtype":"F32","data_offsets":[0,8]})", "shape");
  expect(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", "shape");
  expect(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})", "shape");
  expect(R"({"dtype":"F32","shape":[0],"data_offsets":[0,0]})", "zero");
  expect(R"({"dtype":"F32","shape":[2],"data_offsets":[8]})", "data_offsets");
  expect(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", "[8, 0]");
  expect(R"({"dtype":"F32","shape":[3],"data_offsets":[0,12]})",
         "[0, 12], but the file has 8 bytes");
  expect(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", "needs 12 bytes");
  expect(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})", "2^63");
  expect(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", "4 bytes at the end");
  expect(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", "leave a gap");
  expect(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]},"u":
             {"dtype":"F32","shape":[1],"data_offsets":[4,8]})",
         "overlap");
  expect(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]},"t":1)", "duplicate key 't'");
  expect("{]", "malformed JSON: parse error at line 1, column 7");
  expect("\"\xFF\"", "malformed JSON");
  expect("[[[[1]]]]", "nested deeper than 3");
}

TEST(SafetensorsTest, AbsurdHeadersFailWithoutAllocating) {
  std::vector<std::string> files = {"", "1234567", File("", ""), File("[]", ""), File("1", "")};
  for (uint64_t length : {1ULL << 20, 1ULL << 40, ~0ULL, 1ULL << 63}) {
    files.push_back(std::string(reinterpret_cast<const char*>(&length), 8) + "{}");
  }
  files.push_back(File(std::string(1'000'000, '['), ""));
  const std::clock_t start = std::clock();
  for (const std::string& file : files) EXPECT_FALSE(Parse(file));
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 0.1);
}

TEST(SafetensorsTest, EveryTruncationIsAnError) {
  const std::string whole = Sample();
  for (size_t size = 0; size <= whole.size(); ++size) {
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    const auto read = Safetensors::Parse(std::as_bytes(std::span(cut)), "cut");
    EXPECT_EQ(read.has_value(), size == whole.size()) << size;
  }
}

TEST(SafetensorsTest, FlippedBitsNeverCrash) {
  const std::string whole = Sample();
  uint64_t sum = 0;
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    const CounterRng random{seed};
    std::vector<char> bad(whole.begin(), whole.end());
    const uint64_t flips = 1 + random.Bits(0) % 3;
    for (uint64_t i = 1; i <= flips; ++i) {
      bad[random.Bits(2 * i) % bad.size()] ^= static_cast<char>(1 << random.Bits(2 * i + 1) % 8);
    }
    const auto read = Safetensors::Parse(std::as_bytes(std::span(bad)), "bad");
    if (read) sum += Touch(*read);
  }
  EXPECT_NE(sum, 0U);
}

}  // namespace
}  // namespace pie
