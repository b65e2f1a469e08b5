// Files to begin with: small, of every kind that the readers know, right or nearly so.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "model/gguf_test_writer.h"
#include "mutator.h"

namespace pie::fuzz {

// Metadata of some architecture and tensors of any type, now and then beyond the file, over one
// another, or counted wrongly.
std::string RandomGguf(Dice& dice);

nlohmann::ordered_json RandomSafetensorsHeader(Dice& dice);
std::string SafetensorsFile(const std::string& header);

nlohmann::ordered_json RandomConfig(Dice& dice);

// A whole model of a few thousand weights, spoilt; loading it, and a step on it if it loads.
std::string MakeWeights(Dice& dice);
bool LoadWeights(const std::string& bytes);

// The keys tokenizer.ggml.* of a vocabulary of some kind.
void AddVocabulary(GgufTestWriter& writer, Dice& dice);

// A tokenizer.json, and a GGUF file that has a vocabulary and nothing else, spoilt; loading them,
// and using what loads.
std::string MakeTokenizer(Dice& dice);
bool ReadTokenizer(const std::string& text);
std::string MakeVocabulary(Dice& dice);
bool ReadVocabulary(const std::string& bytes);

// A client's frame, and the server's reader of it.
std::string MakeFrame(Dice& dice);
bool ReadFrame(const std::string& frame);

}  // namespace pie::fuzz
