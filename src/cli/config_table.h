// Table: typed access to one table of a config file. Errors name the line.
#pragma once

#include <toml++/toml.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/config_keys.h"

namespace pie::cli {

// The allowed range of a number in the file, and the factor by which it is multiplied.
struct Range {
  uint64_t least = 0;
  uint64_t most = INT64_MAX;  // the largest TOML integer
  uint64_t scale = 1;
};

// Reads typed values from one table and remembers the first error.
class Table {
 public:
  // `node` is the table `name` of the file at `path`, or null.
  Table(const toml::node* node, std::string_view name, std::string path)
      : table_(node == nullptr ? nullptr : node->as_table()), name_(name), path_(std::move(path)) {
    if (node != nullptr && table_ == nullptr) {
      Complain(*node, name, fmt::format("a table, written [{}]", name));
    }
  }

  const toml::node* Get(std::string_view key) const {
    return table_ == nullptr ? nullptr : table_->get(key);
  }

  template <class T>
  void Read(std::string_view key, T* into, Range range = {}) {
    PIE_CHECK(IsConfigKey(fmt::format("{}.{}", name_, key)));
    const toml::node* node = Get(key);
    if (node == nullptr) return;
    if constexpr (std::is_same_v<T, std::string>) {
      if (node->is_string()) return void(*into = node->as_string()->get());
      Complain(*node, key, "a text in quotes");
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      const toml::array* list = node->as_array();
      if (list == nullptr || (!list->empty() && !list->is_homogeneous<std::string>())) {
        return Complain(*node, key, "a list of texts in quotes");
      }
      into->clear();
      for (const toml::node& item : *list) into->push_back(item.as_string()->get());
    } else if constexpr (std::is_same_v<T, std::map<std::string, std::string>>) {
      const toml::table* table = node->as_table();
      if (table == nullptr || (!table->empty() && !table->is_homogeneous<std::string>())) {
        return Complain(*node, key, "a table of texts in quotes");
      }
      into->clear();
      for (const auto& [name, item] : *table) {
        (*into)[std::string(name.str())] = item.as_string()->get();
      }
    } else if constexpr (std::is_same_v<T, double>) {
      const double value = node->value<double>().value_or(-1);
      if (value >= static_cast<double>(range.least) && value <= static_cast<double>(range.most)) {
        return void(*into = value);
      }
      Complain(*node, key, fmt::format("a number from {} to {}", range.least, range.most));
    } else if constexpr (std::is_same_v<T, bool>) {
      if (node->is_boolean()) return void(*into = node->as_boolean()->get());
      Complain(*node, key, "true or false");
    } else {
      const int64_t value = node->is_integer() ? node->as_integer()->get() : -1;
      const uint64_t fits = static_cast<uint64_t>(std::numeric_limits<T>::max()) / range.scale;
      const uint64_t most = std::min(range.most, fits);
      if (value >= 0 && std::cmp_greater_equal(value, range.least) &&
          std::cmp_less_equal(value, most)) {
        return void(*into = static_cast<T>(static_cast<uint64_t>(value) * range.scale));
      }
      Complain(*node, key, fmt::format("a whole number from {} to {}", range.least, most));
    }
  }
  const std::string& problem() const { return problem_; }

 private:
  void Complain(const toml::node& node, std::string_view key, std::string_view wanted) {
    if (!problem_.empty()) return;
    problem_ = fmt::format("{}:{}: '{}' must be {}", path_, node.source().begin.line, key, wanted);
  }
  const toml::table* table_;
  std::string name_;
  std::string path_;
  std::string problem_;
};

}  // namespace pie::cli
