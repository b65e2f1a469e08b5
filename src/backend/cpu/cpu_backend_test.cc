#include "backend/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>

#include "backend/cpu/sequence_testing.h"
#include "backend/cpu/testing.h"
#include "backend/cpu/tiny_llama.h"
#include "backend/sampling.h"

namespace pie::cpu {
namespace {

// A file that is removed at the end of the test.
class TempFile {
 public:
  explicit TempFile(const std::string& bytes) {
    const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(test->test_suite_name()) + "." + test->name() + ".gguf";
    std::ranges::replace(name, '/', '-');
    path_ = testing::TempDir() + name;
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TempFile() { std::filesystem::remove(path_); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::unique_ptr<Backend> Open(const std::string& bytes, CpuOptions options = {}) {
  const TempFile file(bytes);
  if (options.total_pages == 0) options.total_pages = 512;
  if (options.threads == 0) options.threads = 2;
  auto backend = MakeCpuBackend(file.path(), std::move(options));
  if (!backend) {
    ADD_FAILURE() << backend.error().text;
    return nullptr;
  }
  return std::move(*backend);
}

std::string ErrorOf(const std::string& bytes) {
  const TempFile file(bytes);
  const auto backend = MakeCpuBackend(file.path(), {.total_pages = 4});
  return backend ? "" : backend.error().text;
}

Sequence TinySequence(uint32_t length, uint64_t seed = 1) {
  return {length, seed, TinyLlama::kVocab};
}

// Root mean square of the differences, relative to that of the logits.
double Difference(const Rows& got, const std::vector<std::vector<double>>& expected) {
  EXPECT_EQ(got.size(), expected.size());
  double squares = 0;
  double error = 0;
  for (size_t row = 0; row < got.size(); ++row) {
    EXPECT_EQ(got[row].size(), expected[row].size());
    for (size_t i = 0; i < got[row].size(); ++i) {
      squares += expected[row][i] * expected[row][i];
      error += (got[row][i] - expected[row][i]) * (got[row][i] - expected[row][i]);
    }
  }
  return std::sqrt(error / squares);
}

Sequence Masked(uint32_t length) {
  Sequence sequence = TinySequence(length, 7);
  for (uint32_t i = 0; i < length; ++i) {
    sequence.positions[i] = i / 2 * 3;  // positions may be arbitrary
    // Each mask has two gaps; some rows see no key at all.
    sequence.masks.push_back({i % 5, i % 7, 3, i % 11 == 0 ? 0 : 1000U});
  }
  return sequence;
}

class CpuBackendTest : public AtLevel {};

// Logits may differ from the exact model by `rounding`, about twice the measured error. From the
// model that rounds alike they differ only by sums in float (24 bits, a few hundred terms: 1e-4),
// until a number lies so close to the middle that it is rounded to the other side. Rows that have
// seen such a number differ by up to two roundings, √2 of one: 0.7 × `rounding`. So half of the
// first rows must agree, and the average must stay below half of that.
void ExpectReference(TinyLlama& model, CpuLevel level, double rounding, bool bf16) {
  const auto device = Open(model.Bytes(), {.level = level});
  for (const Sequence& s : {TinySequence(70), Masked(70)}) {
    const Rows got = AllLogits(*device, {s}, 1000)[0];
    EXPECT_LT(Difference(got, model.Logits(s.tokens, s.positions, s.masks, true)), rounding);
    const auto alike = model.Logits(s.tokens, s.positions, s.masks, false, bf16);
    EXPECT_LT(Difference(got, alike), rounding / 3);
    size_t same = 0;
    for (size_t row = 0; row < 8; ++row) {
      if (Difference({got[row]}, {alike[row]}) < 1e-4) ++same;
    }
    EXPECT_GE(same, 4U);
  }
}

TEST_P(CpuBackendTest, FloatWeightsGiveTheReferencesLogits) {
  TinyLlama model(DType::kF32, DType::kF32, false);
  ExpectReference(model, GetParam(), 0.001, false);  // the error of keys and values in F16
}

TEST_P(CpuBackendTest, QuantisedWeightsAreWithinTheErrorOfBytes) {
  TinyLlama model(DType::kQ4_1, DType::kQ8_0, true);
  // Includes the error of activations as bytes.
  ExpectReference(model, GetParam(), 0.04, GetParam() >= CpuLevel::kAvx512Bf16);
}

std::vector<Sequence> SomeSequences() {
  return {TinySequence(75), Masked(70), TinySequence(1, 3), TinySequence(33, 4)};
}

// Results must agree to the last bit.
TEST_P(CpuBackendTest, ARowDependsOnItsSequenceAlone) {
  const std::string bytes = TinyLlama(DType::kQ4_1, DType::kQ8_0, true).Bytes();
  const std::vector<Sequence> sequences = SomeSequences();
  for (uint32_t page_tokens : {1, 5, 16}) {
    std::vector<Rows> expected;  // each sequence alone, in one chunk, on one thread
    const auto alone = Open(bytes, {.page_tokens = page_tokens, .threads = 1, .level = GetParam()});
    for (const Sequence& s : sequences) expected.push_back(AllLogits(*alone, {s}, 1000)[0]);
    const auto device = Open(bytes, {.page_tokens = page_tokens, .level = GetParam()});
    for (uint32_t chunk : {1, 7, 1000}) {
      EXPECT_TRUE(AllLogits(*device, sequences, chunk) == expected)
          << "pages of " << page_tokens << ", chunks of " << chunk;
    }
  }
}

// Pages read from one device and written to other pages of another continue a sequence, exact to
// the last bit.
TEST_P(CpuBackendTest, PagesCanBeMovedToAnotherDevice) {
  const std::string bytes = TinyLlama(DType::kQ4_1, DType::kQ8_0, true).Bytes();
  constexpr uint32_t kLength = 34;
  constexpr uint32_t kMoved = 10;  // page numbers are shifted by this much
  for (uint32_t page_tokens : {1, 5, 16}) {
    const CpuOptions options = {.page_tokens = page_tokens, .level = GetParam()};
    const auto from = Open(bytes, options);
    const auto to = Open(bytes, options);
    ASSERT_EQ(from->info().layout, to->info().layout);
    ASSERT_EQ(from->info().fingerprint, to->info().fingerprint);
    const Sequence sequence = TinySequence(kLength);
    const Rows expected = AllLogits(*from, {sequence}, 1000)[0];
    std::vector<SampleSpec> samples = {{.kind = SampleSpec::Kind::kLogits, .rows = {0}}};
    Batch batch;
    batch.members.push_back({.rows = 1,
                             .pages = (kLength + page_tokens - 1) / page_tokens,
                             .kv_tokens = kLength - 1,
                             .samples = &samples});
    batch.tokens = {sequence.tokens.back()};
    batch.positions = {sequence.positions.back()};
    std::vector<std::byte> content(from->info().page_bytes);
    for (uint32_t page = 0; page < batch.members[0].pages; ++page) {
      ASSERT_TRUE(from->ReadPage({page}, content));
      ASSERT_TRUE(to->WritePage({page + kMoved}, content));
      batch.pages.push_back({page + kMoved});
    }
    auto output = to->Wait(*to->Submit(batch));
    ASSERT_TRUE(output);
    EXPECT_EQ(std::get<LogitsSlot>(output->slots[0][0]).logits, expected.back());
  }
  const std::string other = TinyLlama(DType::kF32, DType::kF32, false).Bytes();
  EXPECT_NE(Open(bytes, {})->info().fingerprint, Open(other, {})->info().fingerprint);
  EXPECT_NE(Open(bytes, {.page_tokens = 8})->info().layout, Open(bytes, {})->info().layout);
}

// Rows that no sampler reads are dropped in the last layer; this must not change the others.
TEST_P(CpuBackendTest, LogitsDoNotDependOnOtherReads) {
  const auto device =
      Open(TinyLlama(DType::kQ4_1, DType::kQ8_0, true).Bytes(), {.level = GetParam()});
  std::vector<Sequence> sequences = SomeSequences();
  const std::vector<Rows> all = AllLogits(*device, sequences, 1000);
  sequences[0].read = {74};
  sequences[1].read = {3, 4, 5, 40, 69};
  sequences[2].read = {};
  sequences[3].read = {0, 32};
  for (uint32_t chunk : {7, 1000}) {
    const std::vector<Rows> some = AllLogits(*device, sequences, chunk);
    for (size_t s = 0; s < sequences.size(); ++s) {
      ASSERT_EQ(some[s].size(), sequences[s].read.size());
      for (size_t i = 0; i < some[s].size(); ++i) {
        EXPECT_TRUE(some[s][i] == all[s][sequences[s].read[i]]) << "sequence " << s << " " << i;
      }
    }
  }
}

// Forks that share the pages of a prefix step together; each gets the logits that it gets alone.
TEST_P(CpuBackendTest, SharedPrefixesDoNotChangeLogits) {
  const uint32_t forks = 6;
  const uint32_t prefix = 128;
  const uint32_t own = 5;
  const std::string bytes = TinyLlama(DType::kQ4_1, DType::kQ8_0, true).Bytes();
  for (uint32_t page_tokens : {1, 16, 64}) {
    const auto device = Open(bytes, {.page_tokens = page_tokens, .level = GetParam()});
    std::vector<Sequence> sequences;
    std::vector<Rows> expected;
    for (uint32_t s = 0; s < forks; ++s) {
      Sequence sequence(prefix + own, 9, TinyLlama::kVocab);
      for (uint32_t i = prefix; i < prefix + own; ++i) sequence.tokens[i] = (s * 7 + i) % 50;
      sequences.push_back(sequence);
      expected.push_back(AllLogits(*device, {sequence}, 1000)[0]);
    }
    Sequence first = sequences[0];
    first.tokens.resize(prefix);
    first.positions.resize(prefix);
    AllLogits(*device, {first}, 1000);  // fills the pages from 0 on
    const uint32_t shared_pages = prefix / page_tokens;
    const std::vector<SampleSpec> last = {{.kind = SampleSpec::Kind::kLogits, .rows = {0}}};
    for (uint32_t step = 0; step < own; ++step) {
      Batch batch;
      for (uint32_t s = 0; s < forks; ++s) {
        const uint32_t at = prefix + step;
        batch.members.push_back({.first_row = s,
                                 .rows = 1,
                                 .first_page = static_cast<uint32_t>(batch.pages.size()),
                                 .pages = shared_pages + step / page_tokens + 1,
                                 .kv_tokens = at,
                                 .samples = &last});
        batch.tokens.push_back(sequences[s].tokens[at]);
        batch.positions.push_back(at);
        for (uint32_t i = 0; i < shared_pages; ++i) batch.pages.push_back({i});
        for (uint32_t i = 0; i <= step / page_tokens; ++i) {
          batch.pages.push_back({shared_pages + s * own + i});
        }
      }
      const auto output = device->Wait(*device->Submit(batch));
      ASSERT_TRUE(output.has_value());
      for (uint32_t s = 0; s < forks; ++s) {
        EXPECT_TRUE(std::get<LogitsSlot>(output->slots[s][0]).logits == expected[s][prefix + step])
            << "fork " << s << ", step " << step << ", pages of " << page_tokens;
      }
    }
  }
}

TEST_P(CpuBackendTest, PageSizeDoesNotChangeLogits) {
  const std::string bytes = TinyLlama(DType::kQ4_1, DType::kQ8_0, true).Bytes();
  const auto run = [&](uint32_t page_tokens) {
    const auto device = Open(bytes, {.page_tokens = page_tokens, .level = GetParam()});
    return AllLogits(*device, SomeSequences(), 1000);
  };
  const std::vector<Rows> expected = run(16);
  for (uint32_t page_tokens : {1, 5, 8, 32, 64}) {
    EXPECT_TRUE(run(page_tokens) == expected) << "pages of " << page_tokens;
  }
}

TEST_P(CpuBackendTest, AFullMaskEqualsNoMask) {
  const auto device =
      Open(TinyLlama(DType::kQ4_1, DType::kQ8_0, true).Bytes(), {.level = GetParam()});
  const Sequence causal = TinySequence(70);
  Sequence masked = causal;
  masked.masks.assign(70, {0, 1000});
  const auto expected = AllLogits(*device, {causal}, 1000);
  EXPECT_TRUE(AllLogits(*device, {masked}, 1000) == expected);
  EXPECT_TRUE(AllLogits(*device, {masked}, 9) == expected);
}

PIE_TEST_AT_ALL_LEVELS(CpuBackendTest);

// One member that continues after `kv_tokens` tokens and reads its last row greedily.
struct Step {
  Batch batch;
  std::vector<SampleSpec> samples;

  Step(std::vector<uint32_t> tokens, uint32_t kv_tokens, std::vector<PageId> pages) {
    const auto rows = static_cast<uint32_t>(tokens.size());
    samples = {{.kind = SampleSpec::Kind::kLogits, .rows = {rows - 1}}};
    batch.tokens = std::move(tokens);
    for (uint32_t i = 0; i < rows; ++i) batch.positions.push_back(kv_tokens + i);
    batch.pages = std::move(pages);
    batch.members = {{.rows = rows,
                      .pages = static_cast<uint32_t>(batch.pages.size()),
                      .kv_tokens = kv_tokens,
                      .samples = &samples}};
  }
  Step(const Step&) = delete;
  std::vector<float> Logits(Backend& device) const {
    const auto output = device.Wait(*device.Submit(batch));
    return std::get<LogitsSlot>(output->slots[0][0]).logits;
  }
};

class FixedMask final : public TokenMasks {
 public:
  explicit FixedMask(const std::vector<uint32_t>& tokens) : bits_((TinyLlama::kVocab + 31) / 32) {
    for (const uint32_t token : tokens) bits_[token / 32] |= 1U << (token % 32);
  }
  Result<std::span<const uint32_t>> Bits(uint32_t /*index*/) override { return bits_; }

 private:
  std::vector<uint32_t> bits_;
};

// Only the logits of words with an allowed token are computed.
TEST_P(CpuBackendTest, AFewAllowedTokensAreSampledAsFromAllLogits) {
  for (const DType head : {DType::kQ8_0, DType::kF32}) {
    const auto device = Open(TinyLlama(DType::kQ4_1, head, true).Bytes(), {.level = GetParam()});
    const std::vector<float> logits = Step({1, 2, 3}, 0, {{0}}).Logits(*device);
    for (const std::vector<uint32_t>& allowed :
         {std::vector<uint32_t>{5}, {99}, {96, 97, 98, 99}, {33, 40, 41, 63}, {1, 2, 70}}) {
      FixedMask mask(allowed);
      for (const float temperature : {0.0F, 2.0F}) {
        Step({7, 8}, 0, {{1}}).Logits(*device);  // leaves other logits in the buffers
        Step step({1, 2, 3}, 0, {{2}});
        step.samples[0].kind = SampleSpec::Kind::kMultinomial;
        step.samples[0].temperature = temperature;
        step.batch.members[0].masks = &mask;
        step.batch.members[0].seed = 11;
        const auto output = device->Wait(*device->Submit(step.batch));
        ASSERT_TRUE(output && output->failures.empty());
        std::vector<Slot> expected;
        ASSERT_TRUE(Sampling().Read(step.samples[0], logits, AllowedTokens(*mask.Bits(0)),
                                    {.seed = 11, .row = 2}, expected));
        EXPECT_EQ(std::get<TokenSlot>(output->slots[0][0]).token,
                  std::get<TokenSlot>(expected[0]).token);
      }
    }
  }
}

// Members under narrow masks, wide masks and none share a batch. Each samples as from all logits.
TEST_P(CpuBackendTest, MembersUnderNarrowAndWideMasksSampleAsFromAllLogits) {
  constexpr uint32_t kMembers = 12;
  std::vector<uint32_t> most(TinyLlama::kVocab - 1);
  std::iota(most.begin(), most.end(), 1);
  const std::vector<std::vector<uint32_t>> allowed = {{5}, {99}, {96, 97}, {3, 4, 31}, most};
  const auto device =
      Open(TinyLlama(DType::kQ4_1, DType::kQ8_0, true).Bytes(), {.level = GetParam()});
  std::vector<std::vector<float>> logits;
  std::vector<std::unique_ptr<FixedMask>> masks;
  Step together({}, 0, {});
  together.samples = {{.kind = SampleSpec::Kind::kMultinomial, .temperature = 2.0F, .rows = {1}}};
  together.batch.members.clear();
  for (uint32_t i = 0; i < kMembers; ++i) {
    logits.push_back(Step({i, i + 1}, 0, {{i}}).Logits(*device));
    // Every sixth member has no mask.
    masks.push_back(i % 6 == 5 ? nullptr : std::make_unique<FixedMask>(allowed[i % 6]));
    together.batch.tokens.insert(together.batch.tokens.end(), {i, i + 1});
    together.batch.positions.insert(together.batch.positions.end(), {0, 1});
    together.batch.pages.push_back({i});
    together.batch.members.push_back({.first_row = 2 * i,
                                      .rows = 2,
                                      .first_page = i,
                                      .pages = 1,
                                      .seed = i,
                                      .samples = &together.samples,
                                      .masks = masks.back().get()});
  }
  const auto output = device->Wait(*device->Submit(together.batch));
  ASSERT_TRUE(output && output->failures.empty());
  for (uint32_t i = 0; i < kMembers; ++i) {
    std::vector<Slot> expected;
    const AllowedTokens mask =
        masks[i] == nullptr ? AllowedTokens() : AllowedTokens(*masks[i]->Bits(0));
    ASSERT_TRUE(
        Sampling().Read(together.samples[0], logits[i], mask, {.seed = i, .row = 1}, expected));
    EXPECT_EQ(std::get<TokenSlot>(output->slots[i][0]).token,
              std::get<TokenSlot>(expected[0]).token)
        << i;
  }
}

TEST(CpuBackendPagesTest, CopiesRunFirstAndCoverAllLayers) {
  const auto device = Open(TinyLlama(DType::kF32, DType::kF32, true).Bytes());
  Step({1, 2, 3}, 0, {{0}}).Logits(*device);
  Step fork({9}, 3, {{5}});
  fork.batch.copies = {{{0}, {7}}, {{7}, {5}}};
  const auto forked = fork.Logits(*device);
  EXPECT_NE(forked, Step({8}, 3, {{0}}).Logits(*device));
  EXPECT_EQ(forked, Step({9}, 3, {{0}}).Logits(*device));
}

TEST(CpuBackendTest, AMaskThatAllowsNothingFailsItsMemberAlone) {
  const auto device = Open(TinyLlama(DType::kF32, DType::kF32, true).Bytes());
  const Brle nothing = {TinyLlama::kVocab};
  Step both({1, 1}, 0, {{1}, {2}});
  both.samples[0] = {.rows = {0}};
  both.batch.positions = {0, 0};
  both.batch.members = {
      {.rows = 1, .pages = 1, .logit_mask = &nothing, .samples = &both.samples},
      {.first_row = 1, .rows = 1, .first_page = 1, .pages = 1, .samples = &both.samples}};
  const auto output = device->Wait(*device->Submit(both.batch));
  ASSERT_EQ(output->failures.size(), 1U);
  EXPECT_EQ(output->failures[0].member, 0U);
  EXPECT_EQ(output->slots[1].size(), 1U);
}

// A pass with such a token is refused before it is queued (sched/pass.cc).
TEST(CpuBackendDeathTest, ATokenBeyondTheVocabularyStopsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the device has threads
  EXPECT_DEATH(
      {
        const auto device = Open(TinyLlama(DType::kF32, DType::kF32, true).Bytes());
        Step({TinyLlama::kVocab}, 0, {{0}}).Logits(*device);
      },
      "broken invariant");
}

TEST(CpuBackendLoadTest, ReportsInfoAndProgress) {
  uint64_t last = 0;
  uint64_t all = 0;
  const auto device = Open(TinyLlama(DType::kF32, DType::kF32, true).Bytes(),
                           {.max_positions = 5000, .progress = [&](uint64_t done, uint64_t total) {
                              EXPECT_GT(done, last);
                              last = done;
                              all = total;
                            }});
  EXPECT_EQ(device->info().name, "cpu");
  EXPECT_EQ(device->info().vocab_size, TinyLlama::kVocab);
  EXPECT_EQ(device->info().max_positions, 2048U);
  EXPECT_GT(all, 0U);
  EXPECT_EQ(last, all);
}

TEST(CpuBackendLoadTest, AFileThatIsTruncatedWhileItIsReadIsReported) {
  const TempFile file(TinyLlama(DType::kF32, DType::kF32, true).Bytes());
  const auto truncate = [&](uint64_t, uint64_t) {
    std::filesystem::resize_file(file.path(), 4096);
  };
  const auto backend = MakeCpuBackend(file.path(), {.total_pages = 4, .progress = truncate});
  ASSERT_FALSE(backend);
  EXPECT_NE(backend.error().text.find("was truncated while it was read"), std::string::npos)
      << backend.error().text;
}

TEST(CpuBackendLoadTest, PagesFillTheGivenMemory) {
  const TempFile file(TinyLlama(DType::kF32, DType::kF32, true).Bytes());
  const uint64_t page_bytes = uint64_t{TinyLlama::kLayers} * TinyLlama::kKvHeads *
                              TinyLlama::kHeadDim * 2 * sizeof(uint16_t) * 16;
  EXPECT_EQ((*MakeCpuBackend(file.path(), {.kv_bytes = page_bytes * 8 - 1}))->info().total_pages,
            7U);
  EXPECT_FALSE(MakeCpuBackend(file.path(), {.kv_bytes = page_bytes - 1}));
  EXPECT_FALSE(MakeCpuBackend(file.path(), {.page_tokens = 0}));
}

TEST(CpuBackendLoadTest, RefusesMoreMemoryThanTheMachineHas) {
  const TempFile file(TinyLlama(DType::kF32, DType::kF32, true).Bytes());
  for (const CpuOptions& options :
       {CpuOptions{.kv_bytes = uint64_t{1} << 50}, CpuOptions{.total_pages = UINT32_MAX},
        CpuOptions{.page_tokens = UINT32_MAX, .total_pages = UINT32_MAX}}) {
    const auto backend = MakeCpuBackend(file.path(), options);
    ASSERT_FALSE(backend);
    EXPECT_EQ(backend.error().code, Code::kExhausted);
    EXPECT_NE(backend.error().text.find("but this machine has"), std::string::npos)
        << backend.error().text;
  }
}

TEST(CpuBackendLoadTest, KvPagesTakeAQuarterOfWhatTheWeightsLeave) {
  const TempFile file(TinyLlama(DType::kF32, DType::kF32, true).Bytes());
  const uint64_t all = *CpuMemoryOf(file.path(), {.total_pages = 1});
  const auto backend = MakeCpuBackend(file.path(), {.memory_bytes = all + (1 << 20)});
  ASSERT_TRUE(backend) << backend.error().text;
  const BackendInfo& info = (*backend)->info();
  EXPECT_EQ(info.total_pages, ((1 << 20) + info.page_bytes) / 4 / info.page_bytes);
  EXPECT_EQ(info.memory_bytes, all + (info.total_pages - 1) * info.page_bytes);
  const auto none = MakeCpuBackend(file.path(), {.memory_bytes = all - 1});
  ASSERT_FALSE(none) << "not even one page fits beside the weights";
  EXPECT_NE(none.error().text.find("but this machine has"), std::string::npos);
}

TEST(CpuBackendLoadTest, ErrorsNameTheTensor) {
  std::string bytes = TinyLlama(DType::kF32, DType::kF32, true).Bytes();
  const auto renamed = [&](std::string_view from, std::string_view to) {
    std::string changed = bytes;
    changed.replace(changed.find(from), from.size(), to);
    return ErrorOf(changed);
  };
  EXPECT_NE(renamed("blk.1.ffn_up", "blk.1.ffn_xx").find("tensor blk.1.ffn_up.weight is missing"),
            std::string::npos);
  // Swaps two names, so that the keys have the shape of an output.
  const std::string from = "blk.0.attn_k.weight";
  std::string swapped = bytes;
  swapped.replace(swapped.find(from), from.size(), "blk.0.attn_Q.weight");
  swapped.replace(swapped.find("blk.0.attn_q.weight"), from.size(), from);
  swapped.replace(swapped.find("blk.0.attn_Q.weight"), from.size(), "blk.0.attn_q.weight");
  EXPECT_NE(ErrorOf(swapped).find("tensor blk.0.attn_q.weight has shape [32, 64], but the model's "
                                  "configuration requires [96, 64]"),
            std::string::npos)
      << ErrorOf(swapped);
  EXPECT_FALSE(MakeCpuBackend("/nowhere/model.gguf", {}));
}

}  // namespace
}  // namespace pie::cpu
