#include "backend/cpu/logit_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "backend/sampling.h"

namespace pie::cpu {
namespace {

// Narrow rows need at most this share of all words. With more, computing them apart saves little.
constexpr double kLargestShare = 0.25;

// The output layer takes as long for fewer rows as for this many, because its weights have to be
// read from memory.
constexpr size_t kFreeRows = 4;

// The time of the output layer over all words, in rows.
double Cost(size_t rows) {
  return rows == 0 ? 0 : static_cast<double>(std::max(rows, kFreeRows));
}

}  // namespace

void LogitPlan::Make(const Batch& batch, std::span<const uint32_t> read, ThreadPool& pool) {
  SplitRows(batch, read);
  const auto has_masks = [](const Batch::Member& member) { return member.masks != nullptr; };
  if (std::ranges::any_of(batch.members, has_masks)) {
    pool.ParallelFor(static_cast<uint32_t>(members_.size()),
                     [&](uint32_t i) { CollectWords(batch.members[i], members_[i]); });
    ChooseNarrow(read.size());
  }
  rows_.clear();
  for (const Member& member : members_) {
    if (!member.is_narrow) rows_.insert(rows_.end(), member.rows.begin(), member.rows.end());
  }
  whole_ = rows_.size();
  for (const Member& member : members_) {
    if (member.is_narrow) rows_.insert(rows_.end(), member.rows.begin(), member.rows.end());
  }
}

void LogitPlan::SplitRows(const Batch& batch, std::span<const uint32_t> read) {
  members_.clear();
  for (const Batch::Member& member : batch.members) {
    const auto begin = std::ranges::lower_bound(read, member.first_row);
    const auto end = std::ranges::lower_bound(read, member.first_row + member.rows);
    members_.push_back({.rows = {begin, end}});
  }
}

// Leaves `own` as it is if anything except a sampler under masks reads the logits, or if so many
// tokens are allowed that computing all logits is faster.
void LogitPlan::CollectWords(const Batch::Member& member, Member& own) const {
  if (member.masks == nullptr || own.rows.empty()) return;
  if (member.adapter != nullptr) return;  // it may change all logits
  std::vector<bool> used(words_of_vocabulary_);
  for (const SampleSpec& sample : *member.samples) {
    if (sample.kind >= SampleSpec::kFirstProbe) return;
    for (const uint32_t row : sample.rows) {
      if (row < member.pass_row || row - member.pass_row >= member.rows) continue;
      const Result<AllowedTokens> mask = Sampling::MaskOf(member, row);
      if (!mask || mask->bits.empty()) return;  // the sampler reports the error
      const size_t words = std::min(used.size(), mask->bits.size());
      for (size_t word = 0; word < words; ++word) {
        if (mask->bits[word] != 0) used[word] = true;
      }
    }
  }
  for (uint32_t word = 0; word < used.size(); ++word) {
    if (used[word]) own.words.push_back(word);
  }
  own.is_narrow = static_cast<double>(own.words.size()) <=
                  kLargestShare * static_cast<double>(words_of_vocabulary_);
}

// All narrow rows are computed over the same words. Members join from the narrowest on, each if the
// words do not become too many.
void LogitPlan::ChooseNarrow(size_t rows) {
  std::vector<Member*> by_size;
  for (Member& member : members_) {
    if (std::exchange(member.is_narrow, false)) by_size.push_back(&member);
  }
  std::ranges::sort(by_size, {}, [](const Member* member) { return member->words.size(); });
  words_.clear();
  size_t narrow = 0;
  const auto all = static_cast<double>(words_of_vocabulary_);
  std::vector<uint32_t> both;
  for (Member* const member : by_size) {
    both.clear();
    std::ranges::set_union(words_, member->words, std::back_inserter(both));
    if (static_cast<double>(both.size()) > kLargestShare * all) continue;
    std::swap(words_, both);
    member->is_narrow = true;
    narrow += member->rows.size();
  }
  const double share = static_cast<double>(words_.size()) / all;
  if (Cost(rows - narrow) + share * Cost(narrow) < Cost(rows)) return;
  for (Member* const member : by_size) member->is_narrow = false;
}

}  // namespace pie::cpu
