#include "cli/testing/script_file.h"

#include <algorithm>
#include <utility>

#include "cli/testing/toml_values.h"

namespace pie::cli {
namespace {

Result<std::vector<double>> ReadWeights(const toml::table& table, size_t texts,
                                        const std::string& path) {
  std::vector<double> weights;
  const toml::node* const node = table.get("weights");
  if (node == nullptr) return weights;
  if (const toml::array* list = node->as_array()) {
    for (const toml::node& item : *list) weights.push_back(item.value<double>().value_or(0));
  }
  const bool positive = std::ranges::all_of(weights, [](double w) { return w > 0 && w < 1e9; });
  if (!positive || weights.size() != texts) {
    return Fail(Code::kInvalid,
                "{}: 'weights' must be a list of positive numbers, one for each of the {} texts of "
                "'say'",
                PlaceOf(*node, path), texts);
  }
  return weights;
}

Result<ScriptedAnswer> ReadAnswer(const toml::table& table, const std::string& path) {
  PIE_RETURN_IF_ERROR(
      CheckKeys(table, {"when", "after", "say", "weights", "end_turn", "repeat"}, path));
  ScriptedAnswer answer;
  PIE_RETURN_IF_ERROR(ReadText(table, "when", path, &answer.when));
  PIE_RETURN_IF_ERROR(ReadText(table, "after", path, &answer.after));
  PIE_RETURN_IF_ERROR(ReadTexts(table, "say", path, &answer.say));
  PIE_RETURN_IF_ERROR(ReadFlag(table, "end_turn", path, &answer.end_turn));
  PIE_RETURN_IF_ERROR(ReadFlag(table, "repeat", path, &answer.repeat));
  answer.weights = PIE_TRY(ReadWeights(table, answer.say.size(), path));
  if (answer.say.empty()) {
    return Fail(Code::kInvalid, "{}: an answer needs 'say', the text that the model says",
                PlaceOf(table, path));
  }
  return answer;
}

}  // namespace

Result<std::vector<ScriptedAnswer>> ReadAnswers(const toml::table& table, const std::string& path) {
  std::vector<ScriptedAnswer> answers;
  for (const toml::table* answer : PIE_TRY(ReadTables(table, "answer", path))) {
    answers.push_back(PIE_TRY(ReadAnswer(*answer, path)));
  }
  return answers;
}

Result<std::shared_ptr<Script>> ReadScript(const std::string& path) {
  const toml::table root = PIE_TRY(ParseTomlFile(path));
  PIE_RETURN_IF_ERROR(CheckKeys(root, {"answer"}, path));
  return std::make_shared<Script>(PIE_TRY(ReadAnswers(root, path)));
}

toml::array AnswersToToml(const std::vector<ScriptedAnswer>& answers) {
  toml::array list;
  for (const ScriptedAnswer& answer : answers) {
    toml::table table;
    if (!answer.when.empty()) table.insert("when", answer.when);
    if (answer.say.size() == 1) {
      table.insert("say", answer.say[0]);
    } else {
      toml::array say;
      for (const std::string& text : answer.say) say.push_back(text);
      table.insert("say", std::move(say));
    }
    if (!answer.end_turn) table.insert("end_turn", false);
    list.push_back(std::move(table));
  }
  return list;
}

}  // namespace pie::cli
