// Drives llama.cpp through its C API, the way pie-cpu-bench drives our backend: one configuration a
// process, one JSON line. Also the second opinion of tests/golden/make_smollm2.py.
//
//   driver --model F --mode prefill --length 512
//   driver --model F --mode decode --batch 8 --context 32 --steps 64
//   driver --model F --mode shared --batch 16 --context 512 --own 16 --steps 32
//   driver --model F --mode greedy --steps 64      < prompts, a line of token ids each
//   driver --model F --mode logits                 < the same; f32 logits of each last token
//   driver --model F --mode grammar --grammar G --steps 64      < one prompt; G is a GBNF file
// also --lora F.gguf (an adapter) --threads 2 --reps 3 --flash auto|on|off --unified 0|1 --ubatch
// 512 --mmap 0|1
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "llama.h"

namespace {

using Clock = std::chrono::steady_clock;
using Tokens = std::vector<llama_token>;

double Ms(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "llamacpp driver: %s\n", what.c_str());
  std::exit(1);
}

struct Options {
  std::map<std::string, std::string> values = {
      {"model", ""},    {"mode", "prefill"}, {"threads", "2"}, {"reps", "3"},   {"length", "512"},
      {"batch", "1"},   {"context", "32"},   {"own", "16"},    {"steps", "64"}, {"flash", "auto"},
      {"unified", "0"}, {"ubatch", "512"},   {"mmap", "1"},    {"grammar", ""}, {"lora", ""}};

  Options(int argc, char** argv) {
    for (int i = 1; i < argc; i += 2) {
      const std::string flag = argv[i];
      const std::string name = flag.starts_with("--") ? flag.substr(2) : "";
      if (i + 1 >= argc || !values.contains(name)) Fail("what is " + flag + "?");
      values[name] = argv[i + 1];
    }
  }
  const std::string& Text(const std::string& name) const { return values.at(name); }
  int Number(const std::string& name) const { return std::atoi(Text(name).c_str()); }
};

class Driver {
 public:
  explicit Driver(const Options& options) : options_(options), mode_(options.Text("mode")) {
    const auto start = Clock::now();
    llama_backend_init();
    ggml_backend_load_all();
    llama_model_params model = llama_model_default_params();
    model.load_mode = options.Number("mmap") ? LLAMA_LOAD_MODE_MMAP : LLAMA_LOAD_MODE_NONE;
    model_ = llama_model_load_from_file(options.Text("model").c_str(), model);
    if (model_ == nullptr) Fail("cannot load " + options.Text("model"));
    vocab_ = llama_vocab_n_tokens(llama_model_get_vocab(model_));

    batch_ = options.Number("batch");
    steps_ = options.Number("steps");
    own_ = options.Number("own");
    context_ = options.Number(mode_ == "prefill" ? "length" : "context");
    llama_context_params params = llama_context_default_params();
    params.n_seq_max = static_cast<uint32_t>(batch_);
    params.kv_unified = options.Number("unified") != 0;
    params.n_ctx = static_cast<uint32_t>(Capacity(params.kv_unified));
    params.n_batch = kBatchTokens;
    params.n_ubatch = static_cast<uint32_t>(options.Number("ubatch"));
    params.n_threads = params.n_threads_batch = options.Number("threads");
    const std::string& flash = options.Text("flash");
    params.flash_attn_type = flash == "on"    ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                             : flash == "off" ? LLAMA_FLASH_ATTN_TYPE_DISABLED
                                              : LLAMA_FLASH_ATTN_TYPE_AUTO;
    llama_ = llama_init_from_model(model_, params);
    if (llama_ == nullptr) Fail("cannot make a context");
    if (const std::string& lora = options.Text("lora"); !lora.empty()) {
      llama_adapter_lora* adapter = llama_adapter_lora_init(model_, lora.c_str());
      float scale = 1;
      if (adapter == nullptr || llama_set_adapters_lora(llama_, &adapter, 1, &scale) != 0) {
        Fail("cannot load the adapter " + lora);
      }
    }
    load_ms_ = Ms(start);
    input_ = llama_batch_init(kBatchTokens, 0, 1);
  }

  // Prefill of one sequence, tokens per second.
  double Prefill() {
    Clear();
    const auto start = Clock::now();
    Feed(0, 0, Random(context_));
    return context_ * 1e3 / Ms(start);
  }

  // Greedy decoding of `batch` sequences in step, each with its own context.
  double Decode() {
    Clear();
    for (int s = 0; s < batch_; ++s) Feed(s, 0, Random(context_));
    return Steps(context_);
  }

  // The same with one context that all sequences share, and a few tokens of their own.
  double Shared() {
    Clear();
    Feed(0, 0, Random(context_));
    for (int s = 1; s < batch_; ++s) llama_memory_seq_cp(Memory(), 0, s, 0, context_);
    for (int s = 0; s < batch_; ++s) Feed(s, context_, Random(own_));
    return Steps(context_ + own_);
  }

  void Measure() {
    const auto once = [&] {
      return mode_ == "prefill" ? Prefill() : mode_ == "shared" ? Shared() : Decode();
    };
    Warm();
    std::vector<double> tps;
    for (int i = 0; i < options_.Number("reps"); ++i) tps.push_back(once());
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf(
        "{\"tps\": %.2f, \"tps_min\": %.2f, \"tps_max\": %.2f, \"rss_mb\": %.1f, "
        "\"load_ms\": %.1f}\n",
        Median(tps), *std::min_element(tps.begin(), tps.end()),
        *std::max_element(tps.begin(), tps.end()), static_cast<double>(usage.ru_maxrss) / 1024,
        load_ms_);
  }

  // One line of ids in, one JSON line of ids and of margins between the best two out.
  void Greedy(const Tokens& prompt) {
    Clear();
    Feed(0, 0, prompt);
    std::string tokens;
    std::string margins;
    for (int i = 0; i < steps_; ++i) {
      const auto [best, margin] = Best(output_);
      tokens += (i ? ", " : "") + std::to_string(best);
      margins += (i ? ", " : "") + std::to_string(margin);
      Feed(0, static_cast<int>(prompt.size()) + i, {best});
    }
    std::printf("{\"tokens\": [%s], \"margins\": [%s]}\n", tokens.c_str(), margins.c_str());
  }

  // Greedy decoding that a grammar holds, in tokens per second from the first token to the last. As
  // llama.cpp's own server does it: the likeliest token is taken if the grammar accepts it, and
  // only otherwise the grammar looks at the whole vocabulary.
  void Grammar(const Tokens& prompt) {
    std::ifstream file(options_.Text("grammar"));
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    std::vector<double> tps;
    for (int i = 0; i <= options_.Number("reps"); ++i) {
      llama_sampler* const grammar =
          llama_sampler_init_grammar(llama_model_get_vocab(model_), text.c_str(), "root");
      if (grammar == nullptr) Fail("cannot read the grammar " + options_.Text("grammar"));
      Clear();
      Feed(0, 0, prompt);
      llama_token token = Held(grammar);
      const auto start = Clock::now();
      for (int step = 1; step < steps_; ++step) {
        Feed(0, static_cast<int>(prompt.size()) + step - 1, {token});
        token = Held(grammar);
      }
      // The first run warms the caches up.
      if (i > 0) tps.push_back((steps_ - 1) * 1e3 / Ms(start));
      llama_sampler_free(grammar);
    }
    std::printf("{\"tps\": %.2f}\n", Median(tps));
  }

  void Logits(const Tokens& prompt) {
    Clear();
    Feed(0, 0, prompt);
    std::fwrite(llama_get_logits_ith(llama_, output_), sizeof(float), static_cast<size_t>(vocab_),
                stdout);
  }

 private:
  static constexpr int kBatchTokens = 2048;

  llama_memory_t Memory() { return llama_get_memory(llama_); }
  void Clear() { llama_memory_clear(Memory(), true); }

  // Room for what the mode needs, as its authors round it.
  int Capacity(bool unified) const {
    if (mode_ == "greedy" || mode_ == "logits" || mode_ == "grammar") return 2048;
    const int behind = (mode_ == "shared" ? own_ : 0) + (mode_ == "prefill" ? 0 : steps_);
    const int each = (context_ + behind + 255) / 256 * 256;
    if (unified && mode_ == "shared") return (context_ + batch_ * behind + 255) / 256 * 256;
    return each * batch_;
  }

  Tokens Random(int count) {
    Tokens tokens;
    for (int i = 0; i < count; ++i) {
      tokens.push_back(static_cast<llama_token>(20 + random_() % (vocab_ - 20)));
    }
    return tokens;
  }

  void Add(llama_token token, int position, int sequence, bool logits) {
    const int i = input_.n_tokens++;
    input_.token[i] = token;
    input_.pos[i] = position;
    input_.n_seq_id[i] = 1;
    input_.seq_id[i][0] = sequence;
    input_.logits[i] = logits;
  }

  void Run() {
    if (llama_decode(llama_, input_) != 0) Fail("llama_decode failed");
    llama_synchronize(llama_);
  }

  // Tokens into a sequence; logits of the last one only.
  void Feed(int sequence, int position, const Tokens& tokens) {
    for (size_t at = 0; at < tokens.size();) {
      input_.n_tokens = 0;
      for (; at < tokens.size() && input_.n_tokens < kBatchTokens; ++at) {
        Add(tokens[at], position + static_cast<int>(at), sequence, at + 1 == tokens.size());
      }
      Run();
    }
    output_ = input_.n_tokens - 1;
  }

  std::pair<llama_token, float> Best(int row) {
    const float* const logits = llama_get_logits_ith(llama_, row);
    int best = 0;
    float second = -INFINITY;
    for (int i = 1; i < vocab_; ++i) {
      if (logits[i] > logits[best]) {
        second = logits[best];
        best = i;
      } else {
        second = std::max(second, logits[i]);
      }
    }
    return {best, logits[best] - second};
  }

  // The likeliest token that the grammar accepts, which it takes.
  llama_token Held(llama_sampler* grammar) {
    llama_token_data best{Best(output_).first, 0, 0};
    llama_token_data_array one{&best, 1, -1, false};
    llama_sampler_apply(grammar, &one);
    if (best.logit == -INFINITY) {
      const float* const logits = llama_get_logits_ith(llama_, output_);
      candidates_.clear();
      for (int i = 0; i < vocab_; ++i) candidates_.push_back({i, logits[i], 0});
      llama_token_data_array all{candidates_.data(), candidates_.size(), -1, false};
      llama_sampler_apply(grammar, &all);
      best = *std::max_element(
          candidates_.begin(), candidates_.end(),
          [](const llama_token_data& a, const llama_token_data& b) { return a.logit < b.logit; });
    }
    llama_sampler_accept(grammar, best.id);
    return best.id;
  }

  double Steps(int position) {
    Tokens current = Random(batch_);
    const auto start = Clock::now();
    for (int step = 0; step < steps_; ++step, ++position) {
      input_.n_tokens = 0;
      for (int s = 0; s < batch_; ++s) Add(current[static_cast<size_t>(s)], position, s, true);
      Run();
      for (int s = 0; s < batch_; ++s) current[static_cast<size_t>(s)] = Best(s).first;
    }
    return batch_ * steps_ * 1e3 / Ms(start);
  }

  // Reads all weights once, in both ways of computing.
  void Warm() {
    Clear();
    Feed(0, 0, Random(std::min(context_, 256)));
    for (int i = 0; i < 4; ++i) Feed(0, std::min(context_, 256) + i, Random(1));
  }

  const Options& options_;
  const std::string mode_;
  llama_model* model_ = nullptr;
  llama_context* llama_ = nullptr;
  llama_batch input_{};
  int vocab_ = 0;
  int batch_ = 1, steps_ = 0, own_ = 0, context_ = 0;
  int output_ = 0;  // the row of the last Feed that has logits
  std::vector<llama_token_data> candidates_;
  double load_ms_ = 0;
  std::minstd_rand random_{42};
};

}  // namespace

int main(int argc, char** argv) {
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  const Options options(argc, argv);
  Driver driver(options);
  const std::string& mode = options.Text("mode");
  if (mode != "greedy" && mode != "logits" && mode != "grammar") {
    driver.Measure();
    return 0;
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    Tokens prompt;
    for (llama_token token; in >> token;) prompt.push_back(token);
    if (prompt.empty()) continue;
    if (mode == "greedy") driver.Greedy(prompt);
    if (mode == "logits") driver.Logits(prompt);
    if (mode == "grammar") driver.Grammar(prompt);
  }
}
