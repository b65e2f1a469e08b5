// Tests constraints, drafts, samplers, probes, forks, saved contexts, suspension, chains and
// adapters in pairs: every pair gives the same tokens as a plain loop that recomputes everything
// for each token.
#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>

#include "backend/sampling.h"
#include "host/all_pairs.h"
#include "host/api_chain_testing.h"
#include "model/adapter/peft.h"

namespace pie::host {
namespace {

enum class Constraint : uint8_t { kNone, kRegex, kSchema, kSeveral, kCount };
enum class Drafts : uint8_t { kNone, kEngine, kGuest, kModel, kCount };
enum class Saved : uint8_t { kNot, kInMemory, kInFile, kCount };
constexpr size_t kSamplers = 6;  // greedy, and the five kinds

struct Setting {
  Constraint constraint;
  Drafts drafts;
  size_t sampler;
  Saved saved;
  bool probes, fork, suspended, chained, adapter, mask_thread, asynchronous;
};

const std::vector<size_t> kSizes = {static_cast<size_t>(Constraint::kCount),
                                    static_cast<size_t>(Drafts::kCount),
                                    kSamplers,
                                    2,
                                    2,
                                    static_cast<size_t>(Saved::kCount),
                                    2,
                                    2,
                                    2,
                                    2,
                                    2};
constexpr size_t kProbes = 3, kSaved = 5, kChained = 7, kAdapter = 8;

// Returns whether two values can be combined: a chain has no probes.
bool Allowed(const AxisPair& pair) {
  const auto both = [&](size_t a, size_t b) {
    return pair.axis == a && pair.value == 1 && pair.other_axis == b && pair.other_value == 1;
  };
  return !both(kProbes, kChained);
}

std::vector<Setting> AllSettings() {
  std::vector<Setting> settings;
  for (const PairsRow& row : AllPairs(kSizes, Allowed)) {
    const auto is = [&](size_t axis) { return row[axis] == 1; };
    settings.push_back({.constraint = static_cast<Constraint>(row[0]),
                        .drafts = static_cast<Drafts>(row[1]),
                        .sampler = row[2],
                        .saved = static_cast<Saved>(row[kSaved]),
                        .probes = is(kProbes),
                        .fork = is(4),
                        .suspended = is(6),
                        .chained = is(kChained),
                        .adapter = is(kAdapter),
                        .mask_thread = is(9),
                        .asynchronous = is(10)});
  }
  return settings;
}

TEST(AllPairsTest, EveryAllowedPairOccursAndNoOther) {
  const std::vector<PairsRow> rows = AllPairs(kSizes, Allowed);
  std::set<AxisPair> seen;
  for (const PairsRow& row : rows) {
    for (size_t a = 0; a < row.size(); ++a) {
      for (size_t b = a + 1; b < row.size(); ++b) {
        ASSERT_TRUE(Allowed({a, row[a], b, row[b]}));
        seen.insert({a, row[a], b, row[b]});
      }
    }
  }
  size_t pairs = 0;
  for (size_t a = 0; a < kSizes.size(); ++a) {
    for (size_t b = a + 1; b < kSizes.size(); ++b) pairs += kSizes[a] * kSizes[b];
  }
  EXPECT_EQ(seen.size(), pairs - 1);
  EXPECT_LT(rows.size(), 60U);
}

pie_bridge::Sampler SamplerOf(size_t number) {
  using Kind = pie_bridge::SamplerKind;
  constexpr Kind kKinds[] = {Kind::TopK, Kind::Multinomial, Kind::TopK,
                             Kind::TopP, Kind::MinP,        Kind::TopKTopP};
  const bool greedy = number == 0;
  return {.kind = kKinds[number],
          .temperature = greedy ? 0 : 1.5F,
          .count = kKinds[number] == Kind::Multinomial ? 1U : 20U,
          .p = kKinds[number] == Kind::MinP ? 0.02F : 0.9F};
}

SampleSpec SpecOf(size_t number) {
  using Kind = SampleSpec::Kind;
  constexpr Kind kKinds[] = {Kind::kTopK, Kind::kMultinomial, Kind::kTopK,
                             Kind::kTopP, Kind::kMinP,        Kind::kTopKTopP};
  const pie_bridge::Sampler sampler = SamplerOf(number);
  return {.kind = kKinds[number],
          .temperature = sampler.temperature,
          .k = kKinds[number] == Kind::kMultinomial ? 0 : sampler.count,
          .p = sampler.p};
}

// The output of a generation. Its probes read the entropy and two log-probabilities of each token.
struct Text {
  Tokens tokens;
  std::vector<float> entropies;
  std::vector<std::vector<float>> logprobs;
  bool complete = false;
};

constexpr uint64_t kSeed = 900;
constexpr size_t kLength = 26;
constexpr size_t kMiddle = 11;  // where the context is forked and saved
const Tokens kProbed = {'a', 'e'};

// Where a test of this process saves contexts; empty if it saves none in files.
std::string FolderOf(const Setting& setting) {
  if (setting.saved != Saved::kInFile) return {};
  return ::testing::TempDir() + "composition-" + std::to_string(getpid());
}

class CompositionTest : public ApiChainTest, public ::testing::WithParamInterface<Setting> {
 protected:
  CompositionTest()
      : ApiChainTest(Setup{.snapshot_root = FolderOf(GetParam()),
                           .device = GetParam().asynchronous ? testing::Device::kAsynchronous
                                                             : testing::Device::kSynchronous,
                           .scheduler = {.check_integrity = true,
                                         .suspend_every_steps = GetParam().suspended ? 2U : 0U},
                           .mask_thread = GetParam().mask_thread,
                           .draft_model = GetParam().drafts == Drafts::kModel}),
        set_(GetParam()) {
    switch (set_.constraint) {
      case Constraint::kRegex:
        grammars_ = {*Grammar::FromRegex("((aha|beta|[cx]yz)[0-4] )+;")};
        break;
      case Constraint::kSchema:
        grammars_ = {*Grammar::FromJsonSchema(
            R"({"type": "array", "minItems": 6, "items": {"enum": ["left", "right", 17]}})")};
        break;
      case Constraint::kSeveral:
        grammars_ = {*Grammar::FromRegex("[a-m]{40}"), *Grammar::FromRegex("[g-z]{40}")};
        mask_ = {'a', 'k' - 'a' + 1};
        break;
      default:
        break;
    }
    const uint32_t tokenizer = Ok(ModelTokenizer(*process_, model_));
    for (const Grammar& grammar : grammars_) {
      const uint32_t source = Ok(process_->handles().grammars.Emplace(grammar));
      matchers_.push_back(Ok(Waited(
          [&](host::Wait& wait) { return MatcherNew(*process_, source, tokenizer, wait); })));
    }
    if (set_.adapter) MakeAdapterOf();
  }
  ~CompositionTest() override {
    const std::string folder = FolderOf(set_);
    if (!folder.empty()) std::filesystem::remove_all(folder);
  }

  void MakeAdapterOf() {
    adapter_ =
        Ok(Waited([&](host::Wait& wait) { return AdapterCreate(*process_, model_, "a", wait); }));
    AdapterWeights weights = *MakeAdapter(DummyAdapterShape(), 2, 4);
    weights.layers[1][2].b[3] = 1;
    const PeftFiles files = *WritePeft(weights, DummyAdapterShape());
    const auto& named = (*process_->handles().adapters.Get(*adapter_))->adapter();
    Ok(engine_->adapters().Load(named, files.config, std::as_bytes(std::span(files.tensors))));
    adapter_weights_ = (*named->current())->device;
  }

  // --- the plain loop ---

  // The logits after a text: a new sequence on a scheduler that shares and suspends nothing.
  std::vector<float> LogitsOf(const Tokens& text) {
    Forward forward;
    forward.sequence = plain_.Create();
    forward.tokens = text;
    for (uint32_t i = 0; i < text.size(); ++i) forward.positions.push_back(i);
    const auto last = static_cast<uint32_t>(text.size()) - 1;
    forward.samples = {{.kind = SampleSpec::Kind::kLogits, .rows = {last}}};
    if (adapter_weights_) forward.adapter = {.version = 1};
    forward.adapter_weights = adapter_weights_;
    testing::Outcome outcome;
    forward.done = outcome.Callback();
    const SequenceId sequence = forward.sequence;
    plain_.Execute(std::move(forward));
    const auto slots = outcome.Get();
    plain_.Drop(sequence);
    return std::get<LogitsSlot>((**slots).at(0)).logits;
  }
  // The tokens that may follow `tokens`; empty if none may.
  std::optional<Brle> MaskBehind(const Tokens& tokens) {
    std::vector<bool> allowed(plain_.info().vocab_size, true);
    const auto keep = [&](const Brle& runs) {
      for (uint32_t i = 0; i < allowed.size(); ++i) allowed[i] = allowed[i] && BrleTest(runs, i);
    };
    bool complete = !grammars_.empty();
    for (const Grammar& grammar : grammars_) {
      Matcher matcher = *Matcher::Make(*engine_->models()[0].vocabulary, grammar);
      Ok(matcher.Accept(tokens));
      complete &= matcher.is_terminated();
      keep(Ok(matcher.MaskRuns()));
    }
    if (complete) return std::nullopt;
    if (!mask_.empty()) keep(mask_);
    Brle runs = {0};
    for (const bool is_allowed : allowed) {
      if (is_allowed != (runs.size() % 2 == 0)) runs.push_back(0);
      ++runs.back();
    }
    return runs;
  }
  Text PlainLoop() {
    Text text;
    Sampling sampling;
    for (size_t i = 0; i < kLength; ++i) {
      const std::optional<Brle> mask = MaskBehind(text.tokens);
      if (!mask) break;
      Tokens all = kPrompt;
      all.insert(all.end(), text.tokens.begin(), text.tokens.end());
      const std::vector<float> logits = LogitsOf(all);
      const auto row = static_cast<uint32_t>(i == 0 ? kPrompt.size() - 1 : 0);
      const SampleKey key{kSeed + i, set_.probes ? 1U : 0U, row};
      std::vector<Slot> slots;
      Ok(sampling.Read(SpecOf(set_.sampler), logits, &*mask, key, slots));
      Ok(sampling.Read({.kind = SampleSpec::Kind::kEntropy}, logits, {}, key, slots));
      const SampleSpec logprobs{.kind = SampleSpec::Kind::kLogprobs, .ids = kProbed};
      Ok(sampling.Read(logprobs, logits, {}, key, slots));
      text.tokens.push_back(std::get<TokenSlot>(slots[0]).token);
      text.entropies.push_back(std::get<EntropySlot>(slots[1]).entropy);
      text.logprobs.push_back(std::get<LogprobsSlot>(slots[2]).logprobs);
    }
    text.complete = !MaskBehind(text.tokens);
    return text;
  }

  // --- the same by the engine ---

  bool is_drafted_by_engine() const {
    return set_.drafts == Drafts::kEngine || set_.drafts == Drafts::kModel;
  }
  // A pass over the tokens that were not fed yet. It chooses the next token of the text.
  uint32_t NextPass(const Text& text, const Tokens& draft) {
    const Tokens input = text.tokens.empty() ? kPrompt : Tokens{text.tokens.back()};
    const Counts counts = CountsOf(context_);
    const auto total = counts.tokens + input.size() + draft.size();
    if ((total + 3) / 4 > counts.pages) {
      Ok(ContextReserveWorkingPages(*process_, context_, (total + 3) / 4 - counts.pages));
    }
    const uint32_t pass = Ok(ForwardPassNew(*process_, model_));
    Ok(ForwardPassContext(*process_, pass, context_));
    Tokens positions, draft_positions;
    for (size_t i = 0; i < input.size(); ++i) positions.push_back(Length(counts) + i);
    for (size_t i = 0; i < draft.size(); ++i) draft_positions.push_back(positions.back() + 1 + i);
    Ok(Input(pass, input, positions));
    const auto row = static_cast<uint32_t>(input.size()) - 1;
    const auto read = [&](const pie_bridge::Sampler& sampler) {
      Ok(ForwardPassSampler(*process_, pass, {&row, 1}, sampler));
    };
    if (set_.probes) read({.kind = pie_bridge::SamplerKind::Entropy});
    read(SamplerOf(set_.sampler));
    if (set_.probes) {
      read({.kind = pie_bridge::SamplerKind::Logprobs, .tokens = {kProbed.data(), kProbed.size()}});
    }
    if (!draft.empty()) {
      Ok(ForwardPassInputSpeculativeTokens(*process_, pass, draft, draft_positions));
    }
    if (is_drafted_by_engine()) Ok(ForwardPassOutputSpeculativeTokens(*process_, pass, true));
    for (const uint32_t matcher : matchers_) Ok(ConstraintsConstrain(*process_, pass, matcher));
    if (!mask_.empty()) Ok(ForwardPassLogitMask(*process_, pass, mask_));
    if (adapter_) Ok(ForwardPassAdapter(*process_, pass, *adapter_));
    Ok(SamplingSeed(*process_, pass, kSeed + text.tokens.size()));
    return pass;
  }
  // Drafts the next known tokens, of which every fourth is wrong. Leaves one token to choose.
  Tokens GuestDraft(const Text& text, size_t until, const Text& known) const {
    Tokens draft;
    if (set_.drafts != Drafts::kGuest) return draft;
    for (size_t i = text.tokens.size(); i + 1 < std::min(until, known.tokens.size()); ++i) {
      draft.push_back(i % 4 == 3 ? known.tokens[i] ^ 1U : known.tokens[i]);
      if (draft.size() == 5) break;
    }
    return draft;
  }
  void RunChain(Text& text, size_t until, const Text& known) {
    const bool is_forced =
        !matchers_.empty() && !Ok(ConstraintsForcedTokens(*process_, matchers_[0])).empty();
    const Tokens draft = is_forced ? Tokens{} : GuestDraft(text, until, known);
    const uint32_t pass = NextPass(text, draft);
    const auto most = static_cast<uint32_t>(until - text.tokens.size());
    const uint32_t chain = Ok(ChainsRun(*process_, pass, most, {}));
    const Progress all = TakeAll(chain);
    EXPECT_EQ(all.error, "");
    DropChain(chain);
    text.tokens.insert(text.tokens.end(), all.tokens.begin(), all.tokens.end());
    text.complete = all.ended == ChainsEnding::Complete;
  }
  void RunStep(Text& text, size_t until, const Text& known, Tokens& proposed) {
    proposed.resize(std::min(proposed.size(), until - text.tokens.size() - 1));
    const Tokens draft = is_drafted_by_engine() ? proposed : GuestDraft(text, until, known);
    const uint32_t future = Ok(ForwardPassExecute(*process_, NextPass(text, draft)));
    const InferenceOutput output = Wait(future);
    Tokens chosen;
    for (const Slot& slot : output.slots) {
      if (const auto* token = std::get_if<TokenSlot>(&slot)) chosen.push_back(token->token);
      if (const auto* entropy = std::get_if<EntropySlot>(&slot)) {
        text.entropies.push_back(entropy->entropy);
      }
      if (const auto* found = std::get_if<LogprobsSlot>(&slot)) {
        text.logprobs.push_back(found->logprobs);
      }
    }
    proposed = output.spec_tokens;
    Ok(ContextCommitWorkingPages(*process_, context_, CountsOf(context_).tokens / 4));
    text.tokens.insert(text.tokens.end(), chosen.begin(), chosen.end());
    text.complete = !matchers_.empty();
    for (const uint32_t matcher : matchers_) {
      Ok(MatcherAcceptTokens(*process_, matcher, chosen));
      text.complete &= Ok(MatcherIsTerminated(*process_, matcher));
    }
  }
  // Replaces the context by its fork, or saves it and replaces it by the opened snapshot.
  void Change() {
    if (set_.fork) {
      const uint32_t parent = context_;
      context_ = Ok(ContextFork(*process_, parent));
      Step(parent, {'x', 'y'});
    }
    if (set_.saved != Saved::kNot) {
      Ok(Waited([&](host::Wait& wait) { return ContextSave(*process_, context_, "saved", wait); }));
      context_ = Ok(
          Waited([&](host::Wait& wait) { return ContextOpen(*process_, model_, "saved", wait); }));
      Ok(Waited([&](host::Wait& wait) { return ContextDelete(*process_, model_, "saved", wait); }));
    }
  }
  Text ByTheEngine(const Text& known) {
    Text text;
    context_ = NewContext();
    for (const size_t until : {kMiddle, kLength}) {
      Tokens proposed;
      while (text.tokens.size() < until && !text.complete) {
        if (set_.chained) {
          RunChain(text, until, known);
        } else {
          RunStep(text, until, known, proposed);
        }
        if (HasFailure()) return text;
      }
      if (until == kMiddle) Change();
    }
    return text;
  }

  const Setting set_;
  std::vector<Grammar> grammars_;
  Brle mask_;
  std::vector<uint32_t> matchers_;
  std::optional<uint32_t> adapter_;
  DeviceAdapterPtr adapter_weights_;
  Scheduler plain_{MakeDummyBackend({.page_tokens = 4}), {.prefix = {.share = false}}};
};

TEST_P(CompositionTest, GivesWhatAPlainLoopGives) {
  const Text plain = PlainLoop();
  const Text text = ByTheEngine(plain);
  EXPECT_EQ(text.tokens, plain.tokens);
  EXPECT_EQ(text.complete, plain.complete);
  if (set_.probes) {
    EXPECT_EQ(text.entropies, plain.entropies);
    EXPECT_EQ(text.logprobs, plain.logprobs);
  }
  // The context holds every token but the last.
  Tokens all = kPrompt;
  all.insert(all.end(), text.tokens.begin(), text.tokens.end());
  const Counts counts = CountsOf(context_);
  EXPECT_EQ(Length(counts), all.size() - 1);
  if (set_.adapter) return;
  EXPECT_EQ(Step(context_, {all.back()}), *Argmax(LogitsOf(all), {}));
  EXPECT_TRUE(engine_->models()[0].scheduler->WaitIdle(20'000));
}

INSTANTIATE_TEST_SUITE_P(Settings, CompositionTest, ::testing::ValuesIn(AllSettings()),
                         [](const auto& test) { return fmt::format("Row{}", test.index); });

}  // namespace
}  // namespace pie::host
