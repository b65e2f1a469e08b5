#include "model/gguf.h"

#include <gtest/gtest.h>

#include <ctime>
#include <fstream>

#include "base/random.h"
#include "model/dequantize.h"
#include "model/gguf_test_writer.h"

namespace pie {
namespace {

using Shape = std::vector<uint64_t>;

// A file with every kind of value, array and tensor.
GgufTestWriter Sample() {
  GgufTestWriter writer;
  writer.Add("u8", uint8_t{200});
  writer.Add("i8", int8_t{-3});
  writer.Add("u16", uint16_t{60000});
  writer.Add("i16", int16_t{-3000});
  writer.Add("u32", uint32_t{4000000000});
  writer.Add("i32", int32_t{-5});
  writer.Add("u64", uint64_t{1} << 63);
  writer.Add("i64", int64_t{-6});
  writer.Add("f32", 0.5F);
  writer.Add("f64", 0.25);
  writer.Add("bool", true);
  writer.Add("string", "text \xE2\x82\xAC");
  writer.AddArray<std::string>("strings", {"a", "", "bc"});
  writer.AddArray<int16_t>("numbers", {1, -2, 3});
  writer.AddArray<float>("floats", {1.5F, -2});
  writer.AddArray<bool>("bools", {true, false});
  writer.AddArray<uint8_t>("empty", {});
  std::string nested;
  GgufTestWriter::Value(nested, std::to_underlying(GgufType::kArray));
  GgufTestWriter::Value(nested, uint64_t{2});
  GgufTestWriter::Array<uint8_t>(nested, {1, 2});
  GgufTestWriter::Array<std::string>(nested, {"x"});
  writer.AddRaw("nested", GgufType::kArray, nested);
  writer.AddTensor("first", {2, 3}, DType::kF32, std::string(24, 'x'));
  writer.AddZeros("second", {64, 2}, DType::kQ8_0);
  return writer;
}

std::string ErrorOf(const std::string& bytes) {
  const auto gguf = ParseGguf(bytes);
  return gguf ? "no error" : gguf.error().text;
}

// Reads everything, so that a sanitizer finds bad accesses.
void Touch(const Gguf& gguf) {
  uint64_t sum = 0;
  for (const auto& [key, value] : gguf.metadata()) {
    sum += value.size() + static_cast<uint64_t>(value.Integer().value_or(0));
    if (const auto strings = value.Strings()) {
      for (const auto text : *strings) sum += text.empty() ? 0 : text.back();
    }
    sum += value.Numbers().has_value() + value.Bools().has_value();
    for (const GgufValue& element : value.Elements()) sum += element.Elements().size();
    if (const auto text = value.String()) sum += text->empty() ? 0 : text->back();
  }
  for (const Tensor& tensor : gguf.tensors().all()) {
    for (const std::byte byte : tensor.data) sum += std::to_integer<uint64_t>(byte);
  }
  volatile uint64_t sink = sum;
  (void)sink;
}

TEST(GgufTest, ReadsEveryKindOfValue) {
  for (uint32_t version : {2U, 3U}) {
    GgufTestWriter writer = Sample();
    writer.version = version;
    const std::string bytes = writer.Bytes();
    const auto gguf = ParseGguf(bytes);
    ASSERT_TRUE(gguf) << gguf.error().text;
    EXPECT_EQ(gguf->version(), version);
    EXPECT_EQ(gguf->Find("u8")->Integer(), 200);
    EXPECT_EQ(gguf->Find("i8")->Integer(), -3);
    EXPECT_EQ(gguf->Find("u16")->Integer(), 60000);
    EXPECT_EQ(gguf->Find("i16")->Integer(), -3000);
    EXPECT_EQ(gguf->Find("u32")->Integer(), 4000000000);
    EXPECT_EQ(gguf->Find("i32")->Number(), -5);
    EXPECT_EQ(gguf->Find("u64")->Integer(), std::nullopt);
    EXPECT_EQ(gguf->Find("u64")->Number(), 0x1p63);
    EXPECT_EQ(gguf->Find("i64")->Integer(), -6);
    EXPECT_EQ(gguf->Find("f32")->Number(), 0.5);
    EXPECT_EQ(gguf->Find("f32")->Integer(), std::nullopt);
    EXPECT_EQ(gguf->Find("f64")->Number(), 0.25);
    EXPECT_EQ(gguf->Find("bool")->Bool(), true);
    EXPECT_EQ(gguf->Find("bool")->Integer(), std::nullopt);
    EXPECT_EQ(gguf->Find("string")->String(), "text €");
    EXPECT_EQ(gguf->Find("nothing"), nullptr);
  }
}

TEST(GgufTest, ReadsArrays) {
  const std::string bytes = Sample().Bytes();
  const auto gguf = ParseGguf(bytes);
  ASSERT_TRUE(gguf) << gguf.error().text;
  EXPECT_EQ(gguf->Find("strings")->Strings(), (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ(gguf->Find("strings")->Integers(), std::nullopt);
  EXPECT_EQ(gguf->Find("numbers")->Integers(), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(gguf->Find("floats")->Numbers(), (std::vector<double>{1.5, -2}));
  EXPECT_EQ(gguf->Find("bools")->Bools(), (std::vector<bool>{true, false}));
  EXPECT_EQ(gguf->Find("empty")->size(), 0U);
  EXPECT_EQ(gguf->Find("empty")->Strings()->size(), 0U);
  EXPECT_EQ(gguf->Find("u8")->Integers(), std::nullopt);
  const auto nested = gguf->Find("nested")->Elements();
  ASSERT_EQ(nested.size(), 2U);
  EXPECT_EQ(nested[0].Integers(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(nested[1].Strings(), (std::vector<std::string_view>{"x"}));
}

TEST(GgufTest, TensorsAreOutermostFirstAndAligned) {
  const std::string bytes = Sample().Bytes();
  const auto gguf = ParseGguf(bytes);
  ASSERT_TRUE(gguf) << gguf.error().text;
  ASSERT_EQ(gguf->tensors().size(), 2U);
  const Tensor* first = gguf->tensors().Find("first");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->shape, (Shape{3, 2}));
  EXPECT_EQ(first->elements(), 6U);
  EXPECT_EQ(first->data.size(), 24U);
  EXPECT_EQ(first->data[0], std::byte{'x'});
  const Tensor* second = gguf->tensors().Find("second");
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->dtype, DType::kQ8_0);
  EXPECT_EQ(second->shape, (Shape{2, 64}));
  EXPECT_EQ((second->data.data() - first->data.data()) % 32, 0);
  EXPECT_EQ(gguf->tensors().Find("third"), nullptr);
}

TEST(GgufTest, OpensFilesAndSurvivesAMove) {
  const std::string path = testing::TempDir() + "sample.gguf";
  std::ofstream(path, std::ios::binary) << Sample().Bytes();
  auto opened = Gguf::Open(path);
  ASSERT_TRUE(opened) << opened.error().text;
  const Gguf moved = *std::move(opened);
  EXPECT_EQ(moved.Find("string")->String(), "text €");
  Touch(moved);
  std::ofstream(path, std::ios::binary | std::ios::trunc).flush();
  EXPECT_NE(Gguf::Open(path).error().text.find("truncated file"), std::string::npos);
  std::filesystem::remove(path);
  EXPECT_EQ(Gguf::Open(path).error().code, Code::kNotFound);
  EXPECT_EQ(Gguf::Open("/dev/null").error().text, "/dev/null: this is not a regular file");
  EXPECT_EQ(Gguf::Open(testing::TempDir()).error().code, Code::kInvalid);
}

TEST(GgufTest, ReadsAVocabularyWithoutTensors) {
  GgufTestWriter writer;
  writer.Add("general.architecture", "llama");
  std::string bytes = writer.Bytes();
  bytes.resize(bytes.size() - 1);  // the padding before the data, which are empty
  EXPECT_TRUE(ParseGguf(bytes));
}

TEST(GgufTest, ErrorsNameTheFieldAndItsOffset) {
  const auto with = [](auto change) {
    GgufTestWriter writer;
    writer.Add("key", uint32_t{1});
    change(writer);
    return ErrorOf(writer.Bytes());
  };
  const auto expect = [](const std::string& error, const char* part) {
    EXPECT_NE(error.find(part), std::string::npos) << error << "\nlacks: " << part;
  };
  expect(ErrorOf("GGML...."), "not a GGUF file");
  expect(with([](auto& w) { w.version = 1; }), "version 1 is not supported");
  expect(with([](auto& w) { w.version = 0x03000000; }), "big-endian");
  expect(with([](auto& w) { w.Add("key", 2.0F); }), "metadata 'key', at byte 62: duplicate key");
  expect(with([](auto& w) { w.Add("", 2.0F); }), "metadata key 2 of 2");
  expect(with([](auto& w) { w.AddRaw("odd", GgufType{13}, "1234"); }), "unknown value type 13");
  expect(with([](auto& w) { w.AddRaw("odd", GgufType::kBool, "\x02"); }), "metadata 'odd'");
  expect(with([](auto& w) { w.Add("general.alignment", uint32_t{12}); }), "power of two");
  expect(with([](auto& w) { w.Add("general.alignment", "32"); }), "power of two");
  expect(with([](auto& w) { w.Add("split.count", uint16_t{3}); }), "one of 3 parts");
  expect(with([](auto& w) { w.AddEntry({"t", {4}, 99, 0}); }), "tensor 't', at byte");
  expect(with([](auto& w) { w.AddEntry({"t", {4}, 99, 0}); }), "unknown type 99");
  expect(with([](auto& w) { w.AddEntry({"t", {1, 1, 1, 1, 1}, 0, 0}); }), "5 dimensions");
  expect(with([](auto& w) { w.AddEntry({"t", {33}, 2, 0}); }), "not a whole number of Q4_0 blocks");
  expect(with([](auto& w) { w.AddEntry({"t", {4, 0}, 0, 0}); }), "is zero");
  expect(with([](auto& w) { w.AddEntry({"t", {1ULL << 62, 1ULL << 62}, 0, 0}); }), "2^63");
  expect(with([](auto& w) { w.AddEntry({"t", {4}, 0, 8}); }), "not a multiple of 32");
  expect(with([](auto& w) { w.AddEntry({"t", {4}, 0, 0}); }), "truncated file");
  expect(with([](auto& w) { w.AddEntry({"t", {4}, 0, ~31ULL}); }), "truncated file");
  expect(with([](auto& w) { w.AddZeros("t", {4}), w.AddZeros("t", {4}); }), "duplicate name");
  expect(with([](auto& w) {
           w.AddZeros("one", {64});
           w.AddEntry({"two", {4}, 0, 224});
         }),
         "tensor 'two', at byte 352: its data overlap those of tensor 'one'");
}

TEST(GgufTest, AbsurdCountsFailWithoutAllocating) {
  const auto huge = [](GgufType element, uint64_t count) {
    std::string payload;
    GgufTestWriter::Value(payload, std::to_underlying(element));
    GgufTestWriter::Value(payload, count);
    return payload + std::string(64, '\0');
  };
  std::vector<std::string> files;
  for (uint64_t count : {1ULL << 20, 1ULL << 40, ~0ULL, ~0ULL / 8 + 1, 1ULL << 63}) {
    GgufTestWriter metadata, tensors, text;
    metadata.extra_metadata = count;
    tensors.extra_tensors = count;
    std::string length;
    GgufTestWriter::Value(length, count);
    text.AddRaw("text", GgufType::kString, length);
    files.insert(files.end(), {metadata.Bytes(), tensors.Bytes(), text.Bytes()});
    for (uint32_t element = 0; element < 13; ++element) {
      GgufTestWriter array;
      array.AddRaw("array", GgufType::kArray, huge(GgufType{element}, count));
      files.push_back(array.Bytes());
    }
  }
  std::string deep;  // arrays of one array each, nested without end
  for (int i = 0; i < 100'000; ++i) {
    GgufTestWriter::Value(deep, std::to_underlying(GgufType::kArray));
    GgufTestWriter::Value(deep, uint64_t{1});
  }
  GgufTestWriter nested;
  nested.AddRaw("deep", GgufType::kArray, deep);
  files.push_back(nested.Bytes());

  const std::clock_t start = std::clock();
  for (const std::string& file : files) EXPECT_FALSE(ParseGguf(file));
  const double each_ms = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC /
                         static_cast<double>(files.size());
  EXPECT_LT(each_ms, 1);
}

TEST(GgufTest, EveryTruncationOfItsDataIsAnError) {
  const std::string whole = Sample().Bytes();
  const uint64_t end = whole.size() - 24;  // the last tensor is 4 blocks of 34 bytes, padded
  for (size_t size = 0; size <= whole.size(); ++size) {
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    const auto gguf = Gguf::Parse(std::as_bytes(std::span(cut)), "cut.gguf");
    EXPECT_EQ(gguf.has_value(), size >= end) << size;
    if (gguf) Touch(*gguf);
  }
}

TEST(GgufTest, FlippedBitsNeverCrash) {
  const std::string whole = Sample().Bytes();
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    const CounterRng random{seed};
    std::vector<char> bad(whole.begin(), whole.end());
    const uint64_t flips = 1 + random.Bits(0) % 8;
    for (uint64_t i = 1; i <= flips; ++i) {
      bad[random.Bits(2 * i) % bad.size()] ^= static_cast<char>(1 << random.Bits(2 * i + 1) % 8);
    }
    const auto gguf = Gguf::Parse(std::as_bytes(std::span(bad)), "bad.gguf");
    if (gguf) Touch(*gguf);
  }
}

}  // namespace
}  // namespace pie
