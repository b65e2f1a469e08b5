// The CUDA device on the tiny models of tests/golden, of every architecture, against the logits of
// Hugging Face's transformers, from folders and from GGUF files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device/logits_testing.h"
#include "base/random.h"
#include "base/whole_file.h"
#include "model/adapter/peft.h"
#include "model/adapter/zo_testing.h"
#include "model/safetensors.h"

namespace pie {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNames[] = {"llama",   "mistral", "qwen2",        "qwen3", "qwen3moe",
                                  "mixtral", "gemma2",  "gemma3",       "phi3",  "phi3-long",
                                  "olmo2",   "gpt-oss", "gpt-oss-mxfp4"};

using cuda::Adapted;
using cuda::ReadAll;
using cuda::Rows;

template <class T>
std::vector<T> ReadTensor(const Safetensors& file, const char* name) {
  const Tensor* const tensor = file.tensors().Find(name);
  if (tensor == nullptr) {
    ADD_FAILURE() << name << " is missing";
    return {};
  }
  std::vector<T> out(tensor->elements());
  std::memcpy(out.data(), tensor->data.data(), tensor->data.size());
  return out;
}

std::string TextOf(const fs::path& path) {
  return ReadWhole(path.string(), UINT64_MAX).value_or("");
}

std::vector<Rows> AllLogits(Backend& device, const std::vector<std::vector<uint32_t>>& sequences,
                            uint32_t chunk, const std::vector<Brle>* mask = nullptr,
                            const std::vector<Adapted>& adapted = {}) {
  return ReadAll(device, sequences, {.chunk = chunk, .mask = mask, .adapted = adapted});
}

double Distance(const Rows& rows, const std::vector<float>& expected) {
  double difference = 0;
  double norm = 0;
  size_t at = 0;
  for (const auto& row : rows) {
    for (const float logit : row) {
      difference += (double{logit} - expected.at(at)) * (double{logit} - expected.at(at));
      norm += double{expected[at]} * expected[at];
      ++at;
    }
  }
  EXPECT_EQ(at, expected.size());
  return std::sqrt(difference / norm);
}

// The median over the rows. If two experts are close, a row may go to another one and be far away;
// this does not count such rows, as long as most are alike.
double MedianDistance(const Rows& rows, const std::vector<float>& expected) {
  std::vector<double> distances;
  auto at = expected.begin();
  for (const auto& row : rows) {
    const auto end = at + static_cast<ptrdiff_t>(row.size());
    distances.push_back(Distance({row}, {at, end}));
    at = end;
  }
  const auto middle = distances.begin() + static_cast<ptrdiff_t>(distances.size() / 2);
  std::ranges::nth_element(distances, middle);
  return *middle;
}

std::vector<float> Flat(const Rows& rows) {
  std::vector<float> flat;
  for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  return flat;
}

class CudaGoldenTest : public testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  void SetUp() override {
    const CudaStatus status = FindCudaDevices();
    if (status.devices.empty()) GTEST_SKIP() << "there is no CUDA device: " << status.problem;
    const auto file = Safetensors::Open(Folder() / "golden.safetensors");
    ASSERT_TRUE(file) << file.error().text;
    prompt_ = ReadTensor<uint32_t>(*file, "prompt");
    logits_ = ReadTensor<float>(*file, "logits");
    hidden_ = ReadTensor<float>(*file, "hidden_half_kv");
    greedy_ = ReadTensor<uint32_t>(*file, "greedy");
    max_positions_ = static_cast<uint32_t>(std::stoul(file->metadata().at("max_positions")));
  }

  // The parameter is the name of a model, or the path of an adapter below it.
  static fs::path Folder() {
    const fs::path path = std::get<0>(GetParam());
    return fs::path(PIE_GOLDEN_DIR) / "models" / *path.begin();
  }

  std::unique_ptr<Backend> Open(uint32_t page_tokens = 16, bool graphs = false,
                                bool deterministic = false) const {
    const fs::path path = std::get<1>(GetParam()) ? Folder() / "model.gguf" : Folder();
    auto backend = MakeCudaBackend(path.string(), {.page_tokens = page_tokens,
                                                   .total_pages = 8192 / page_tokens,
                                                   .max_batch_tokens = 512,
                                                   .max_positions = max_positions_,
                                                   .graphs = graphs,
                                                   .deterministic = deterministic});
    EXPECT_TRUE(backend) << backend.error().text;
    return backend ? std::move(*backend) : nullptr;
  }

  std::vector<uint32_t> prompt_;
  std::vector<float> logits_;  // [prompt, vocab]
  std::vector<float> hidden_;  // [prompt, hidden]
  std::vector<uint32_t> greedy_;
  uint32_t max_positions_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Models, CudaGoldenTest,
                         testing::Combine(testing::ValuesIn(kNames), testing::Bool()),
                         [](const auto& param) {
                           std::string name = std::get<0>(param.param);
                           std::ranges::replace(name, '-', '_');
                           return name + (std::get<1>(param.param) ? "_gguf" : "");
                         });

// Weights, keys, values and the inputs of products are rounded to 8 bits of precision. If two
// experts are close, a row may go to another one.
TEST_P(CudaGoldenTest, LogitsAreThoseOfTransformers) {
  const auto device = Open();
  ASSERT_TRUE(device);
  const Rows rows = AllLogits(*device, {prompt_}, 1000)[0];
  const double distance = Distance(rows, logits_);
  fmt::print("{}: {:.4f}\n", std::get<0>(GetParam()), distance);
  const std::string_view name = std::get<0>(GetParam());
  const bool experts = name.contains("moe") || name == "mixtral" || name.starts_with("gpt-oss");
  EXPECT_LT(distance, experts ? 0.08 : 0.02);
}

TEST_P(CudaGoldenTest, EmbeddingsAreTheHiddenStatesOfTransformers) {
  const auto device = Open();
  ASSERT_TRUE(device);
  const std::string_view name = std::get<0>(GetParam());
  const bool experts = name.contains("moe") || name == "mixtral" || name.starts_with("gpt-oss");
  for (const uint32_t chunk : {7U, 1000U}) {
    const Rows rows =
        ReadAll(*device, {prompt_}, {.kind = SampleSpec::Kind::kEmbedding, .chunk = chunk})[0];
    EXPECT_LT(Distance(rows, hidden_), experts ? 0.08 : 0.02) << "chunks of " << chunk;
  }
}

// Rounding differs with the batch, but nothing else does.
TEST_P(CudaGoldenTest, BatchesChunksAndPagesChangeLittle) {
  std::vector<uint32_t> text = prompt_;
  text.insert(text.end(), greedy_.begin(), greedy_.end());
  std::vector<uint32_t> other(41);
  for (uint32_t i = 0; i < other.size(); ++i) other[i] = Mix(7, i) % 53;
  const std::vector<std::vector<uint32_t>> sequences = {text, prompt_, other};
  const auto alone = Open();
  ASSERT_TRUE(alone);
  std::vector<std::vector<float>> expected;
  for (const auto& sequence : sequences) {
    expected.push_back(Flat(AllLogits(*alone, {sequence}, 1000)[0]));
  }
  const std::string_view name = std::get<0>(GetParam());
  const bool experts = name.contains("moe") || name == "mixtral" || name.starts_with("gpt-oss");
  for (const uint32_t page_tokens : {1U, 32U}) {
    const auto device = Open(page_tokens);
    ASSERT_TRUE(device);
    for (const uint32_t chunk : {1U, 7U, 1000U}) {
      const auto together = AllLogits(*device, sequences, chunk);
      for (size_t s = 0; s < sequences.size(); ++s) {
        EXPECT_LT(Distance(together[s], expected[s]), experts ? 0.1 : 0.02)
            << "pages of " << page_tokens << ", chunks of " << chunk;
      }
    }
  }
}

// Every logit has the same bits, whatever else is in the batch, and however the sequence is
// chunked.
TEST_P(CudaGoldenTest, DeterministicModeComputesTheSameBits) {
  std::vector<uint32_t> text = prompt_;
  text.insert(text.end(), greedy_.begin(), greedy_.end());
  std::vector<uint32_t> other(150);
  for (uint32_t i = 0; i < other.size(); ++i) other[i] = Mix(7, i) % 53;
  std::vector<uint32_t> behind = text;  // shares pages with the first
  behind.push_back(3);
  const std::vector<std::vector<uint32_t>> sequences = {text, prompt_, other, behind};
#ifdef PIE_CUDA_EMULATED
  constexpr bool kGraphs = false;  // recording them takes long there
#else
  constexpr bool kGraphs = true;  // which chooses cuBLASLt's algorithms, too
#endif
  const auto device = Open(16, kGraphs, true);
  ASSERT_TRUE(device);
  std::vector<std::vector<float>> expected;
  for (const auto& sequence : sequences) {
    expected.push_back(Flat(AllLogits(*device, {sequence}, 1000)[0]));
  }
  for (const uint32_t chunk : {1U, 7U, 1000U}) {
    const auto together = AllLogits(*device, sequences, chunk);
    for (size_t s = 0; s < sequences.size(); ++s) {
      EXPECT_EQ(Flat(together[s]), expected[s]) << "sequence " << s << ", chunks of " << chunk;
    }
  }
}

// Two batches in flight: each token is chosen on the device and fed to the next step there.
TEST_P(CudaGoldenTest, CarriedTokensContinueGreedily) {
  const auto device = Open(16, true);
  ASSERT_TRUE(device);
  const auto steps = static_cast<uint32_t>(greedy_.size());
  const auto length = static_cast<uint32_t>(prompt_.size());
  std::vector<Batch> batches(steps);
  const std::vector<SampleSpec> last = {{.rows = {length - 1}}};
  const std::vector<SampleSpec> only = {{.rows = {0}}};
  std::vector<uint32_t> tokens;
  std::vector<Backend::Ticket> tickets;
  const auto wait = [&] {
    const auto output = device->Wait(tickets[tokens.size()]);
    ASSERT_TRUE(output) << output.error().text;
    ASSERT_TRUE(output->failures.empty());
    tokens.push_back(std::get<TokenSlot>(output->slots[0][0]).token);
  };
  for (uint32_t step = 0; step < steps; ++step) {
    Batch& batch = batches[step];
    const uint32_t rows = step == 0 ? length : 1;
    const uint32_t before = step == 0 ? 0 : length + step - 1;
    batch.tokens = step == 0 ? prompt_ : std::vector<uint32_t>{9999};
    for (uint32_t i = 0; i < rows; ++i) batch.positions.push_back(before + i);
    for (uint32_t p = 0; p * 16 < before + rows; ++p) batch.pages.push_back({p});
    batch.members = {{.rows = rows,
                      .pages = static_cast<uint32_t>(batch.pages.size()),
                      .kv_tokens = before,
                      .samples = step == 0 ? &last : &only}};
    if (step > 0) batch.carried = {{.row = 0, .batch = tickets.back(), .member = 0}};
    if (tickets.size() - tokens.size() == 2) wait();
    const auto ticket = device->Submit(batch);
    ASSERT_TRUE(ticket) << ticket.error().text;
    tickets.push_back(*ticket);
  }
  while (tokens.size() < steps) wait();
  // Where rounding decides between near ties, the rest of the text differs.
  const auto [ours, theirs] = std::ranges::mismatch(tokens, greedy_);
  const auto same = static_cast<size_t>(ours - tokens.begin());
  fmt::print("{}: {} of {} tokens\n", std::get<0>(GetParam()), same, greedy_.size());
  EXPECT_GE(same, 1U);
  // The same tokens one by one, through the host, give the same choices.
  std::vector<uint32_t> text = prompt_;
  text.insert(text.end(), tokens.begin(), tokens.end() - 1);
  const Rows rows = AllLogits(*device, {text}, 1000)[0];
  uint32_t differ = 0;
  for (uint32_t step = 0; step < steps; ++step) {
    const auto& row = rows[length - 1 + step];
    const float most = *std::ranges::max_element(row);
    differ += row[tokens[step]] < most - 0.3F ? 1 : 0;
  }
  EXPECT_LE(differ, steps / 10);
}

TEST_P(CudaGoldenTest, PagesComeBackAndMasksHide) {
  const auto device = Open();
  ASSERT_TRUE(device);
  const Rows usual = AllLogits(*device, {prompt_}, 1000)[0];
  const uint32_t pages = (static_cast<uint32_t>(prompt_.size()) + 15) / 16;
  std::vector<std::vector<std::byte>> saved;
  for (uint32_t p = 0; p < pages; ++p) {
    saved.emplace_back(device->info().page_bytes);
    ASSERT_TRUE(device->ReadPage({p}, saved.back()));
  }
  AllLogits(*device, {std::vector<uint32_t>(64, 3)}, 1000);  // writes over them
  // The last token alone, on pages that are written elsewhere and copied.
  for (uint32_t p = 0; p < pages; ++p) ASSERT_TRUE(device->WritePage({100 + p}, saved[p]));
  const auto last = static_cast<uint32_t>(prompt_.size()) - 1;
  const std::vector<SampleSpec> samples = {{.kind = SampleSpec::Kind::kLogits, .rows = {0}}};
  Batch batch;
  batch.tokens = {prompt_[last]};
  batch.positions = {last};
  for (uint32_t p = 0; p < pages; ++p) {
    batch.copies.push_back({{100 + p}, {200 + p}});
    batch.pages.push_back({200 + p});
  }
  batch.members = {{.rows = 1, .pages = pages, .kv_tokens = last, .samples = &samples}};
  auto output = device->Wait(*device->Submit(batch));
  ASSERT_TRUE(output && output->failures.empty());
  const auto& logits = std::get<LogitsSlot>(output->slots[0][0]).logits;
  EXPECT_LT(Distance({logits}, usual[last]), 0.05);
  // A causal mask, written out, changes nothing.
  std::vector<Brle> causal;
  for (uint32_t i = 0; i <= last; ++i) causal.push_back({0, i + 1});
  EXPECT_LT(Distance(AllLogits(*device, {prompt_}, 1000, &causal)[0], Flat(usual)), 1e-6);
  std::vector<Brle> narrow;  // only the row's own token
  for (uint32_t i = 0; i <= last; ++i) narrow.push_back({i, 1});
  EXPECT_GT(Distance(AllLogits(*device, {prompt_}, 1000, &narrow)[0], Flat(usual)), 0.05);
}

// Adapters that the peft package made and applied (tests/golden/make_adapters.py), in a batch with
// sequences that have none or another.
class CudaAdapterTest : public CudaGoldenTest {};

INSTANTIATE_TEST_SUITE_P(
    Models, CudaAdapterTest,
    testing::Combine(testing::Values("llama/adapter", "qwen2/adapter", "gemma3/adapter",
                                     "phi3/adapter", "mixtral/adapter", "llama/adapter-ends",
                                     "gemma3/adapter-ends", "qwen3moe/adapter-experts",
                                     "mixtral/adapter-experts", "gpt-oss/adapter-experts",
                                     "qwen3moe/adapter-modules", "mixtral/adapter-modules"),
                     testing::Bool()),
    [](const auto& param) {
      std::string name = std::get<0>(param.param);
      std::ranges::replace(name, '-', '_');
      std::ranges::replace(name, '/', '_');
      return name + (std::get<1>(param.param) ? "_gguf" : "");
    });

TEST_P(CudaAdapterTest, LogitsAreThoseOfPeft) {
  const auto device = Open();
  ASSERT_TRUE(device);
  const fs::path folder = fs::path(PIE_GOLDEN_DIR) / "models" / std::get<0>(GetParam());
  const std::string tensors = TextOf(folder / kPeftTensorFile);
  auto weights = ReadPeft(TextOf(folder / kPeftConfigFile), std::as_bytes(std::span(tensors)),
                          device->info().adapters);
  ASSERT_TRUE(weights) << weights.error().text;
  const auto file = Safetensors::Open(folder / "golden.safetensors");
  ASSERT_TRUE(file) << file.error().text;
  const DeviceAdapterPtr adapter = *device->LoadAdapter(*weights);
  const DeviceAdapterPtr nothing =
      *device->LoadAdapter(*MakeAdapter(device->info().adapters, 4, 8));
  const auto together =
      AllLogits(*device, {prompt_, prompt_, prompt_, prompt_}, 7, nullptr,
                {{adapter.get()}, {}, {nothing.get()}, {adapter.get(), -77, 0.05F}});
  const bool experts = device->info().adapters.experts > 0;
  const auto expected_logits = ReadTensor<float>(*file, "logits");
  EXPECT_LT(Distance(together[0], expected_logits), experts ? 0.1 : 0.03);
  EXPECT_LT(MedianDistance(together[0], expected_logits), 0.03);
  EXPECT_LT(MedianDistance(together[0], expected_logits),
            MedianDistance(together[1], expected_logits) / 2)
      << "the model alone is further away";
  EXPECT_GT(Distance(together[0], logits_), 0.03) << "the adapter changes something";
  EXPECT_LT(Distance(together[1], logits_), 0.08);
  EXPECT_EQ(Flat(together[2]), Flat(together[1])) << "an adapter whose B is 0 changes nothing";
  // The noise that is written into the weights gives the same logits.
  WriteNoise(*weights, -77, 0.05F);
  const DeviceAdapterPtr noisy = *device->LoadAdapter(*weights);
  const auto expected = AllLogits(*device, {prompt_}, 7, nullptr, {{noisy.get()}})[0];
  EXPECT_LT(Distance(together[3], Flat(expected)), 0.03);
  EXPECT_GT(Distance(together[0], Flat(expected)), 0.03) << "the noise changes something";
}

}  // namespace
}  // namespace pie
