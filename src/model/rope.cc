#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

namespace pie {
namespace {

Status ValidateFactors(std::string_view name, const std::vector<float>& factors, uint32_t dims) {
  if (factors.size() != dims / 2) {
    return Fail(Code::kInvalid, "the file has {} {} factors, but {} pairs of dimensions",
                factors.size(), name, dims / 2);
  }
  if (!std::ranges::all_of(factors, [](float f) { return std::isfinite(f) && f > 0; })) {
    return Fail(Code::kInvalid, "a {} factor is not positive and finite", name);
  }
  return {};
}

}  // namespace

std::vector<double> RopeFrequencies(double base, uint32_t dims, std::span<const float> factors) {
  PIE_CHECK(dims % 2 == 0 && (factors.empty() || factors.size() == dims / 2));
  std::vector<double> frequencies(dims / 2);
  for (uint32_t pair = 0; pair < frequencies.size(); ++pair) {
    frequencies[pair] = std::pow(base, -2.0 * pair / dims);
    if (!factors.empty()) frequencies[pair] /= factors[pair];
  }
  return frequencies;
}

std::vector<float> LinearFactors(const RopeConfig& rope, double factor) {
  return std::vector<float>(rope.dims / 2, static_cast<float>(factor));
}

std::vector<float> Llama3Factors(const RopeConfig& rope, double factor, double low_frequency,
                                 double high_frequency) {
  const std::vector<double> frequencies = RopeFrequencies(rope.theta, rope.dims);
  std::vector<float> factors(frequencies.size());
  for (uint32_t pair = 0; pair < factors.size(); ++pair) {
    const double wavelength = 2 * std::numbers::pi / frequencies[pair];
    const double turns = rope.original_context / wavelength;
    const double kept =
        std::clamp((turns - low_frequency) / (high_frequency - low_frequency), 0.0, 1.0);
    factors[pair] = static_cast<float>(1 / ((1 - kept) / factor + kept));
  }
  return factors;
}

std::vector<float> YarnFactors(const RopeConfig& rope, double factor, double beta_fast,
                               double beta_slow, bool whole_pairs) {
  // The pair that rotates `turns` times within the original context.
  const auto pair_of = [&](double turns) {
    return rope.dims * std::log(rope.original_context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double first = pair_of(beta_fast);
  double last = pair_of(beta_slow);
  if (whole_pairs) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, rope.dims - 1.0);
  if (first == last) last += 0.001;
  std::vector<float> factors(rope.dims / 2);
  for (uint32_t pair = 0; pair < factors.size(); ++pair) {
    const double stretched = std::clamp((pair - first) / (last - first), 0.0, 1.0);
    factors[pair] = static_cast<float>(1 / (stretched / factor + (1 - stretched)));
  }
  return factors;
}

double YarnAttentionFactor(double factor, double multiplier) {
  return factor <= 1 ? 1 : 0.1 * multiplier * std::log(factor) + 1;
}

double LongRopeAttentionFactor(double factor, uint32_t original_context) {
  if (factor <= 1 || original_context < 2) return 1;
  return std::sqrt(1 + std::log(factor) / std::log(original_context));
}

void ChooseFactors(uint64_t longest, RopeConfig& rope) {
  if (!rope.long_factors.empty() && longest > rope.original_context) {
    rope.factors = rope.long_factors;
  }
}

Status ValidateRope(const RopeConfig& rope) {
  using Scaling = RopeConfig::Scaling;
  for (const double theta : {rope.theta, rope.sliding_theta == 0 ? 2 : rope.sliding_theta}) {
    if (!std::isfinite(theta) || theta <= 1) {
      return Fail(Code::kInvalid, "the rotary base is {}; it must be above 1", theta);
    }
  }
  if (!std::isfinite(rope.attention_factor) || rope.attention_factor <= 0) {
    return Fail(Code::kInvalid, "the rotary attention factor is {}; it must be above 0",
                rope.attention_factor);
  }
  if (rope.scaling == Scaling::kNone) return {};
  PIE_RETURN_IF_ERROR(ValidateFactors("rotary", rope.factors, rope.dims));
  if (rope.scaling != Scaling::kLongRope) return {};
  if (rope.original_context == 0) {
    return Fail(Code::kInvalid, "the original context length of LongRope is missing");
  }
  return ValidateFactors("long rotary", rope.long_factors, rope.dims);
}

}  // namespace pie
