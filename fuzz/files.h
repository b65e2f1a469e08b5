// Makes the files that fuzzing starts from: small, valid or nearly valid, of every kind that is
// read.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "model/gguf_test_writer.h"
#include "mutator.h"

namespace pie::fuzz {

// A GGUF file with the metadata of some architecture and tensors of any type. Now and then a tensor
// lies beyond the end of the file or overlaps another one, or a count is wrong.
std::string RandomGguf(Dice& dice);

nlohmann::ordered_json RandomSafetensorsHeader(Dice& dice);
std::string SafetensorsFile(const std::string& header);

nlohmann::ordered_json RandomConfig(Dice& dice);

// Makes a damaged model of a few thousand weights. LoadWeights loads it onto a device and runs a
// step if it loads.
std::string MakeWeights(Dice& dice);
bool LoadWeights(const std::string& bytes);

// Adds the keys tokenizer.ggml.* of a vocabulary of some kind.
void AddVocabulary(GgufTestWriter& writer, Dice& dice);

// Make a damaged tokenizer.json, and a damaged GGUF file with a vocabulary only. The readers load
// them and encode and decode with what loads.
std::string MakeTokenizer(Dice& dice);
bool ReadTokenizer(const std::string& text);
std::string MakeVocabulary(Dice& dice);
bool ReadVocabulary(const std::string& bytes);

// Makes a client's frame. ReadFrame gives it to the server's reader.
std::string MakeFrame(Dice& dice);
bool ReadFrame(const std::string& frame);

// A chat template, a Pie.toml, a config file and the file of a saved context, damaged. The readers
// use what they accept.
std::string MakeTemplate(Dice& dice);
bool ReadTemplate(const std::string& text);
std::string MakeManifest(Dice& dice);
bool ReadTheManifest(const std::string& text);
std::string MakeSettings(Dice& dice);
bool ReadSettings(const std::string& text);
std::string MakeSnapshot(Dice& dice);
bool ReadSnapshot(const std::string& bytes);

}  // namespace pie::fuzz
