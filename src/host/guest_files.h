// GuestFiles: files in a guest's folders, read and written by the engine on the guest's behalf.
//
// A path is one that the guest uses: it begins with /scratch or /data. It cannot leave its folder:
// "..", links and special files are refused at every step, also if the guest changes them
// meanwhile. The files belong to the guest, which may change them at any time, so they are read,
// not mapped.
//
// The calls use the disk, so any thread may make them except one that runs guests. Errors name the
// guest's path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/byte_budget.h"

namespace pie::host {

class GuestFiles {
 public:
  struct Folder {
    std::string path;  // on this machine; empty: the guest has none
    uint64_t max_bytes = 0;
  };
  GuestFiles(Folder scratch, Folder data) : scratch_(std::move(scratch)), data_(std::move(data)) {}

  // Reads folder/name, of at most `max_bytes` bytes. They are charged before they are read; a file
  // may be long and take no room on the disk.
  Result<std::string> Read(std::string_view folder, std::string_view name, uint64_t max_bytes,
                           Charge& charge) const;
  // Writes files into a folder. Creates the folder if only its parent exists. Each file appears
  // whole or not at all.
  struct File {
    std::string_view name;
    std::string_view bytes;
  };
  Status Write(std::string_view folder, const std::vector<File>& files) const;

 private:
  // The folder of the guest, and the steps from there.
  struct Place {
    const Folder* root;
    std::vector<std::string> steps;
  };
  Result<Place> Resolve(std::string_view path) const;

  const Folder scratch_, data_;
};

}  // namespace pie::host
