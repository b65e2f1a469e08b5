// The grammars, documents and prompts of pie-structured-bench.
#pragma once

namespace pie {

inline constexpr const char* kAskForRecords =
    "Write a JSON list of twelve invented people, each with a name, a city and a short "
    "description.";

// A list that is longer than the generated text.
inline constexpr const char* kRecords = R"({
  "type": "array", "minItems": 40,
  "items": {"type": "object",
    "properties": {"name": {"type": "string"}, "city": {"type": "string"},
                   "description": {"type": "string"}},
    "required": ["name", "city", "description"], "additionalProperties": false}})";

inline constexpr const char* kLongKeys = R"({
  "type": "array", "minItems": 40,
  "items": {"type": "object",
    "properties": {"identification_number_of_the_customer": {"type": "integer"},
                   "preferred_language_of_correspondence": {"enum": ["english", "german"]},
                   "date_of_the_first_recorded_purchase": {"type": "string", "maxLength": 12},
                   "is_subscribed_to_the_weekly_newsletter": {"type": "boolean"}},
    "required": ["identification_number_of_the_customer", "preferred_language_of_correspondence",
                 "date_of_the_first_recorded_purchase", "is_subscribed_to_the_weekly_newsletter"],
    "additionalProperties": false}})";

// A quotation, an edit and a refactoring: most of the answer stands in the prompt.
inline constexpr const char* kCopyPrompts[] = {
    "Repeat the following text exactly, word for word:\n\nThe harbour was quiet in the early "
    "morning. Three boats lay at the wooden pier, and an old man mended his nets beside them. He "
    "looked up when the bell of the church rang seven times, put down his needle and walked slowly "
    "to the small house at the end of the street, where his daughter had already made coffee.",
    "Correct the one spelling mistake in this text and write the whole text again:\n\nThe "
    "committee "
    "will meet on Monday at nine o'clock in the large room on the second floor. All members are "
    "asked to bring there reports from the last month. The chair will present the budget for the "
    "next year, and every department will have ten minutes to comment on it.",
    "Rename the variable `n` to `count` in this code and write the whole code again:\n\n```python\n"
    "def average(values):\n    n = len(values)\n    if n == 0:\n        return 0\n    total = 0\n"
    "    for value in values:\n        total = total + value\n    return total / n\n\n"
    "def median(values):\n    n = len(values)\n    ordered = sorted(values)\n    return ordered[n "
    "// 2]\n"
    "```",
};

// No part of the answer occurs in the prompt.
inline constexpr const char* kAdversePrompts[] = {
    "Write a surreal poem without repeating any word.",
    "Invent forty random, unrelated facts.",
    "Tell me a strange story about a lighthouse.",
};

struct MaskCase {
  const char* name;
  bool is_schema;  // else a regular expression
  const char* source;
  const char* document;
};

inline constexpr MaskCase kMaskCases[] = {
    {"record", true,
     R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["name", "age", "tags"], "additionalProperties": false})",
     R"({"name": "Ada Lovelace", "age": 36, "tags": ["mathematics", "poetry", "engines"]})"},
    {"nested", true,
     R"({"type": "object", "properties": {"order": {"type": "object", "properties": {
        "id": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{4}$"},
        "lines": {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {
        "item": {"type": "string"}, "count": {"type": "integer", "minimum": 1, "maximum": 99},
        "price": {"type": "number"}}, "required": ["item", "count", "price"],
        "additionalProperties": false}}}, "required": ["id", "lines"],
        "additionalProperties": false}}, "required": ["order"], "additionalProperties": false})",
     R"({"order": {"id": "AB1234", "lines": [{"item": "chair", "count": 4, "price": 59.5}, {"item": "table", "count": 1, "price": 240}]}})"},
    {"choices", true,
     R"({"type": "object", "properties": {"kind": {"enum": ["circle", "square", "triangle"]},
        "color": {"anyOf": [{"const": "red"}, {"const": "green"}, {"type": "null"}]}},
        "required": ["kind", "color"], "additionalProperties": false})",
     R"({"kind": "triangle", "color": "green"})"},
    {"any_json", true, "{}",
     R"({"a": [1, 2.5, true, null], "b": {"c": "text with words", "d": [{"e": []}]}})"},
    {"regex", false, "(https?://)?[a-z0-9]+(\\.[a-z0-9]+)+(/[a-zA-Z0-9_-]*)*",
     "https://www.example.org/a/path/to/some_page"},
};

}  // namespace pie
