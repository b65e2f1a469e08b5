// The corpus: small files in fuzz/corpus/TARGET, from which inputs are made. At the beginning of a
// run, each file is also read unchanged, so an input that once failed a reader is kept there.
#pragma once

#include <string>
#include <vector>

namespace pie::fuzz {

// The files of a target, sorted by name. A target without a folder has none.
std::vector<std::string> Corpus(const std::string& target);

}  // namespace pie::fuzz
