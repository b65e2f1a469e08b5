#include "kv/snapshot_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/random.h"

namespace pie {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kMagic = 0x3150414E53454950ULL;          // "PIESNAP1"
constexpr uint64_t kMagicAdapters = 0x3250414E53454950ULL;  // "PIESNAP2": some rows have adapters
// More tokens than any context of any model has.
constexpr uint64_t kMaxHeadBytes = 1ULL << 32;
constexpr size_t kSumBytes = sizeof(uint64_t);
constexpr size_t kPopulateBytes = size_t{8} << 20;  // whole pages of any system

uint64_t Checksum(uint64_t seed, std::span<const std::byte> bytes) {
  PageChecksum sum(seed);
  sum.Add(bytes);
  return sum.Sum();
}

class Packer {
 public:
  template <class T>
  void Number(T value) {
    const auto raw = std::as_bytes(std::span(&value, 1));
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
  }
  void Text(std::string_view text) {
    Number(static_cast<uint32_t>(text.size()));
    const auto raw = std::as_bytes(std::span(text));
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
  }
  void Words(std::span<const uint32_t> words) {
    Number(static_cast<uint32_t>(words.size()));
    const auto raw = std::as_bytes(words);
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
  }
  std::vector<std::byte> Take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Reads what a Packer wrote. Past the end everything is empty, and ok() is false.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> bytes) : left_(bytes) {}

  template <class T>
  T Number() {
    T value{};
    if (const auto raw = Next(sizeof(T)); !raw.empty()) std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }
  std::string Text() {
    const auto raw = Next(Number<uint32_t>());
    return std::string(reinterpret_cast<const char*>(raw.data()), raw.size());
  }
  std::vector<uint32_t> Words() {
    const auto raw = Next(size_t{Number<uint32_t>()} * sizeof(uint32_t));
    std::vector<uint32_t> words(raw.size() / sizeof(uint32_t));
    if (!raw.empty()) std::memcpy(words.data(), raw.data(), raw.size());
    return words;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return left_.empty(); }

 private:
  std::span<const std::byte> Next(size_t size) {
    if (size > left_.size()) {
      ok_ = false;
      left_ = {};
      return {};
    }
    const auto next = left_.first(size);
    left_ = left_.subspan(size);
    return next;
  }

  std::span<const std::byte> left_;
  bool ok_ = true;
};

uint64_t MagicOf(const SnapshotInfo& info) {
  return info.adapters.empty() ? kMagic : kMagicAdapters;
}

// Rows in a run with the same adapter and noise.
void PackAdapters(Packer& packer, const SnapshotInfo& info, const RowsView& rows) {
  packer.Number(static_cast<uint32_t>(info.adapters.size()));
  for (const SnapshotAdapter& adapter : info.adapters) {
    packer.Text(adapter.name);
    packer.Text(adapter.digest);
  }
  for (uint32_t first = 0; first < rows.size();) {
    const RowAdapter adapter = rows.adapter(first);
    uint32_t count = 1;
    while (first + count < rows.size() && rows.adapter(first + count) == adapter) ++count;
    const auto found = std::ranges::find(info.adapters, adapter.version, &SnapshotAdapter::version);
    PIE_CHECK(adapter.version == 0 || found != info.adapters.end());
    packer.Number(count);
    packer.Number(static_cast<uint32_t>(
        adapter.version == 0 ? 0 : found - info.adapters.begin() + 1));  // 0: the model alone
    packer.Number(adapter.seed);
    packer.Number(adapter.sigma);
    first += count;
  }
}

// Reads what PackAdapters wrote. False: it does not fit the number of rows.
bool UnpackAdapters(Unpacker& unpacker, size_t tokens, SnapshotInfo& info, Rows& rows) {
  const auto adapters = unpacker.Number<uint32_t>();
  for (uint32_t i = 0; i < adapters && unpacker.ok(); ++i) {
    SnapshotAdapter& adapter = info.adapters.emplace_back();
    adapter.name = unpacker.Text();
    adapter.digest = unpacker.Text();
    adapter.version = i + 1;
  }
  while (unpacker.ok() && rows.adapters.size() < tokens) {
    const auto count = unpacker.Number<uint32_t>();
    RowAdapter adapter{.version = unpacker.Number<uint32_t>()};
    adapter.seed = unpacker.Number<int64_t>();
    adapter.sigma = unpacker.Number<float>();
    if (count == 0 || count > tokens - rows.adapters.size() || adapter.version > adapters) {
      return false;
    }
    rows.adapters.insert(rows.adapters.end(), count, adapter);
  }
  return unpacker.ok() && adapters > 0;
}

std::vector<std::byte> PackMeta(const SnapshotInfo& info, const RowsView& rows) {
  Packer packer;
  for (const std::string* text :
       {&info.user, &info.model, &info.name, &info.fingerprint, &info.layout}) {
    packer.Text(*text);
  }
  packer.Number(info.page_bytes);
  packer.Number(info.page_tokens);
  packer.Number(info.committed_pages);
  packer.Number(info.working_pages);
  packer.Number(info.working_tokens);
  packer.Number(info.saved_at);
  packer.Words(rows.tokens);
  packer.Words(rows.positions);
  packer.Number(static_cast<uint32_t>(rows.masks.size()));
  for (const Brle& mask : rows.masks) packer.Words(mask);
  if (!info.adapters.empty()) PackAdapters(packer, info, rows);
  return packer.Take();
}

uint32_t PagesOf(uint64_t tokens, uint32_t page_tokens) {
  return static_cast<uint32_t>((tokens + page_tokens - 1) / page_tokens);
}

template <class T>
T At(std::span<const std::byte> bytes, size_t offset) {
  T value{};
  std::memcpy(&value, &bytes[offset], sizeof(T));
  return value;
}

std::unexpected<Error> Damaged(std::string_view what) {
  return Fail(Code::kInternal, "the snapshot is damaged: {}; delete it and save it again", what);
}

}  // namespace

PageChecksum::PageChecksum(uint64_t seed)
    : a_(Mix(seed)), b_(Mix(seed, 1)), c_(Mix(seed, 2)), d_(Mix(seed, 3)) {}

// Four independent chains, so that a processor works on all of them at once: some 10 GB/s. It finds
// accidents, not attacks: anyone who can write these files can replace them anyway.
void PageChecksum::Add(std::span<const std::byte> bytes) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15ULL;
  PIE_CHECK(size_ % kAlign == 0);
  // One by one, so that they stay in registers.
  uint64_t a = a_, b = b_, c = c_, d = d_;
  const auto add = [](uint64_t& lane, uint64_t word) { lane = std::rotl(lane ^ word, 29) * kOdd; };
  size_t i = 0;
  for (; i + kAlign <= bytes.size(); i += kAlign) {
    uint64_t words[4];
    std::memcpy(words, &bytes[i], kAlign);
    add(a, words[0]);
    add(b, words[1]);
    add(c, words[2]);
    add(d, words[3]);
  }
  for (uint64_t* lane : {&a, &b, &c, &d}) {
    if (i >= bytes.size()) break;
    uint64_t word = 0;
    std::memcpy(&word, &bytes[i], std::min<size_t>(8, bytes.size() - i));
    add(*lane, word);
    i += 8;
  }
  a_ = a, b_ = b, c_ = c, d_ = d;
  size_ += bytes.size();
}

uint64_t PageChecksum::Sum() const {
  return Mix(a_, b_, c_, d_, size_);
}

std::vector<std::byte> SnapshotHead(const SnapshotInfo& info, const RowsView& rows) {
  const std::vector<std::byte> meta = PackMeta(info, rows);
  const uint64_t magic = MagicOf(info);
  Packer packer;
  packer.Number(magic);
  packer.Number(static_cast<uint64_t>(meta.size()));
  std::vector<std::byte> head = packer.Take();
  head.insert(head.end(), meta.begin(), meta.end());
  const uint64_t sum = Checksum(magic, head);
  const auto raw = std::as_bytes(std::span(&sum, 1));
  head.insert(head.end(), raw.begin(), raw.end());
  return head;
}

uint64_t SnapshotBytes(const SnapshotInfo& info, const RowsView& rows) {
  const uint64_t head = 2 * sizeof(uint64_t) + PackMeta(info, rows).size() + kSumBytes;
  return head + PagesOf(rows.size(), info.page_tokens) * (info.page_bytes + kSumBytes);
}

Result<std::shared_ptr<SnapshotFile>> SnapshotFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    if (errno == ENOENT) return Fail(Code::kNotFound, "there is no such snapshot");
    return Fail(Code::kInternal, "the snapshot cannot be read: {}", std::strerror(errno));
  }
  struct stat stat = {};
  void* map = MAP_FAILED;
  if (fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && stat.st_size > 0) {
    map = mmap(nullptr, static_cast<size_t>(stat.st_size), PROT_READ, MAP_SHARED, fd, 0);
  }
  if (map == MAP_FAILED) {
    close(fd);
    return Damaged("the file is empty, or not a regular file");
  }
  auto file = std::shared_ptr<SnapshotFile>(new SnapshotFile(
      fd, {static_cast<const std::byte*>(map), static_cast<size_t>(stat.st_size)}));
  PIE_RETURN_IF_ERROR(file->Parse());
  PIE_RETURN_IF_ERROR(file->CheckWhole());
  return file;
}

Status SnapshotFile::CheckWhole() const {
  if (guard_.lost()) return Damaged("it was shortened while it was open");
  return {};
}

SnapshotFile::~SnapshotFile() {
  guard_ = {};
  munmap(const_cast<std::byte*>(map_.data()), map_.size());
  close(fd_);
}

Status SnapshotFile::Parse() {
  constexpr size_t kFixed = 2 * sizeof(uint64_t);
  if (map_.size() < kFixed + kSumBytes) return Damaged("the file is too short");
  const auto magic = At<uint64_t>(map_, 0);
  if (magic != kMagic && magic != kMagicAdapters) {
    return Fail(Code::kInvalid, "this is not a snapshot, or one of another version of pie");
  }
  const auto meta_bytes = At<uint64_t>(map_, sizeof(uint64_t));
  if (meta_bytes > kMaxHeadBytes || meta_bytes > map_.size() - kFixed - kSumBytes) {
    return Damaged("the file is truncated");
  }
  const size_t head = kFixed + meta_bytes;
  if (At<uint64_t>(map_, head) != Checksum(magic, map_.first(head))) {
    return Damaged("the checksum of its head is wrong");
  }
  Unpacker unpacker(map_.subspan(kFixed, meta_bytes));
  for (std::string* text :
       {&info_.user, &info_.model, &info_.name, &info_.fingerprint, &info_.layout}) {
    *text = unpacker.Text();
  }
  info_.page_bytes = unpacker.Number<uint64_t>();
  info_.page_tokens = unpacker.Number<uint32_t>();
  info_.committed_pages = unpacker.Number<uint32_t>();
  info_.working_pages = unpacker.Number<uint32_t>();
  info_.working_tokens = unpacker.Number<uint32_t>();
  info_.saved_at = unpacker.Number<int64_t>();
  rows_.tokens = unpacker.Words();
  rows_.positions = unpacker.Words();
  const auto masks = unpacker.Number<uint32_t>();
  for (uint32_t i = 0; i < masks && unpacker.ok(); ++i) rows_.masks.push_back(unpacker.Words());
  const bool adapters_fit =
      magic == kMagic || UnpackAdapters(unpacker, rows_.tokens.size(), info_, rows_);
  // The checksum is right, so these can only be wrong if the file was made by hand.
  const uint64_t tokens =
      uint64_t{info_.committed_pages} * info_.page_tokens + info_.working_tokens;
  if (!unpacker.ok() || !unpacker.at_end() || !adapters_fit || info_.page_tokens == 0 ||
      tokens != rows_.tokens.size() || rows_.positions.size() != tokens ||
      (masks != 0 && masks != tokens) ||
      info_.working_tokens > uint64_t{info_.working_pages} * info_.page_tokens) {
    return Damaged("its counts contradict each other");
  }
  pages_ = PagesOf(tokens, info_.page_tokens);
  first_page_ = head + kSumBytes;
  uint64_t body = 0;
  if (__builtin_add_overflow(info_.page_bytes, kSumBytes, &body) ||
      __builtin_mul_overflow(body, pages_, &body) || body != map_.size() - first_page_) {
    return Damaged("the file has the wrong length");
  }
  return {};
}

void SnapshotFile::BindAdapters(std::span<const uint64_t> versions) {
  PIE_CHECK(versions.size() == info_.adapters.size());
  for (RowAdapter& adapter : rows_.adapters) {
    if (adapter.version != 0) adapter.version = versions[adapter.version - 1];
  }
  for (size_t i = 0; i < versions.size(); ++i) info_.adapters[i].version = versions[i];
}

void SnapshotFile::Populate(size_t end) const {
#ifdef MADV_POPULATE_READ
  while (populated_ < end) {
    const size_t size = std::min(kPopulateBytes, map_.size() - populated_);
    // Older systems do not support it. They load the pages one by one, when they are read.
    madvise(const_cast<std::byte*>(map_.data()) + populated_, size, MADV_POPULATE_READ);
    populated_ += size;
  }
#else
  populated_ = end;
#endif
}

Result<std::span<const std::byte>> SnapshotFile::Page(uint32_t index) const {
  PIE_CHECK(index < pages_);
  struct stat stat = {};
  if (fstat(fd_, &stat) != 0 || static_cast<size_t>(stat.st_size) < map_.size()) {
    return Damaged("it was shortened while it was open");
  }
  const size_t at = first_page_ + index * (info_.page_bytes + kSumBytes);
  Populate(at + info_.page_bytes + kSumBytes);
  const auto page = map_.subspan(at, info_.page_bytes);
  if (At<uint64_t>(map_, at + info_.page_bytes) != Checksum(index, page)) {
    return Damaged(fmt::format("page {} of {} has changed", index, pages_));
  }
  return page;
}

// Reads the file instead of its mapping: several threads then need no locks on the tables of pages.
Status SnapshotFile::ReadPage(uint32_t index, std::span<std::byte> room) const {
  PIE_CHECK(index < pages_ && room.size() == info_.page_bytes);
  const auto read = [fd = fd_](size_t at, std::span<std::byte> into) -> Status {
    while (!into.empty()) {
      const ssize_t bytes = pread(fd, into.data(), into.size(), static_cast<off_t>(at));
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes < 0) {
        return Fail(Code::kInternal, "the snapshot cannot be read: {}", std::strerror(errno));
      }
      if (bytes == 0) return Damaged("it was shortened while it was open");
      at += static_cast<size_t>(bytes);
      into = into.subspan(static_cast<size_t>(bytes));
    }
    return {};
  };
  const size_t at = first_page_ + index * (info_.page_bytes + kSumBytes);
  uint64_t sum = 0;
  constexpr size_t kPieceBytes = PageChecksum::kPieceBytes;
  PageChecksum found(index);
  for (size_t done = 0; done < room.size(); done += kPieceBytes) {
    const auto piece = room.subspan(done, std::min(kPieceBytes, room.size() - done));
    PIE_RETURN_IF_ERROR(read(at + done, piece));
    found.Add(piece);
  }
  PIE_RETURN_IF_ERROR(read(at + room.size(), std::as_writable_bytes(std::span(&sum, 1))));
  if (sum != found.Sum()) {
    return Damaged(fmt::format("page {} of {} has changed", index, pages_));
  }
  return {};
}

}  // namespace pie
