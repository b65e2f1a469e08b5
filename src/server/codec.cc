#include "server/codec.h"

#include <utility>

#define MSGPACK_NO_BOOST
#include <array>
#include <msgpack.hpp>

#include "base/utf8.h"

namespace pie::server {
namespace {

using List = std::vector<std::string_view>;
struct Null {};
struct Number {  // an integer of any sign; `value` is 0 if it is negative
  bool negative;
  uint64_t value;
};
struct Bytes {
  std::string_view data;
};
using Value = std::variant<Null, bool, Number, double, std::string_view, Bytes, List>;

struct Field {
  std::string_view key;
  Value value;
};

// Reads one map of plain values and lists of texts. Anything else stops it, with a reason.
class MapReader : public msgpack::null_visitor {
 public:
  explicit MapReader(const Limits& limits) : limits_(limits) {}
  std::vector<Field> fields;
  std::string problem;

  bool start_map(uint32_t entries) {
    if (depth_ != 0) return Stop("a map inside the message is not allowed");
    if (entries > limits_.max_map_entries) {
      return Stop(fmt::format("the message has {} fields; at most {} are allowed", entries,
                              limits_.max_map_entries));
    }
    fields.reserve(entries);
    depth_ = 1;
    return true;
  }
  bool end_map() {
    depth_ = 0;
    return true;
  }
  bool start_map_key() {
    in_key_ = true;
    return true;
  }
  bool end_map_key() {
    in_key_ = false;
    return true;
  }
  bool start_array(uint32_t entries) {
    if (depth_ != 1 || in_key_) return Stop("a list is not allowed here");
    if (entries > limits_.max_list_entries) {
      return Stop(fmt::format("a list has {} entries; at most {} are allowed", entries,
                              limits_.max_list_entries));
    }
    fields.back().value = List();
    depth_ = 2;
    return true;
  }
  bool end_array() {
    depth_ = 1;
    return true;
  }
  bool visit_nil() { return Put(Null{}); }
  bool visit_boolean(bool value) { return Put(value); }
  bool visit_positive_integer(uint64_t value) { return Put(Number{false, value}); }
  bool visit_negative_integer(int64_t) { return Put(Number{true, 0}); }
  bool visit_float32(float value) { return Put(static_cast<double>(value)); }
  bool visit_float64(double value) { return Put(value); }
  bool visit_bin(const char* data, uint32_t size) { return Put(Bytes{{data, size}}); }
  bool visit_ext(const char*, uint32_t) { return Stop("extension types are not allowed"); }
  bool visit_str(const char* data, uint32_t size) {
    std::string_view text(data, size);
    if (!in_key_) return Put(text);
    for (const Field& field : fields) {
      if (field.key == text) return Stop(fmt::format("duplicate field '{}'", text.substr(0, 64)));
    }
    fields.push_back({text, Null{}});
    return true;
  }
  void parse_error(size_t, size_t) {
    if (problem.empty()) problem = "malformed MessagePack";
  }
  void insufficient_bytes(size_t, size_t) {
    if (problem.empty()) problem = "truncated message";
  }

 private:
  bool Stop(std::string reason) {
    problem = std::move(reason);
    return false;
  }
  bool Put(Value value) {
    if (depth_ == 0) return Stop("the message must be a map");
    if (in_key_) return Stop("the name of a field must be a text");
    if (depth_ == 1) {
      fields.back().value = std::move(value);
      return true;
    }
    const auto* text = std::get_if<std::string_view>(&value);
    if (text == nullptr) return Stop("the entries of a list must be texts");
    std::get<List>(fields.back().value).push_back(*text);
    return true;
  }

  const Limits& limits_;
  int depth_ = 0;
  bool in_key_ = false;
};

// Typed access to the fields. Remembers the first field that is missing or of the wrong type.
class Fields {
 public:
  Fields(const std::vector<Field>& fields, const Limits& limits)
      : fields_(fields), limits_(limits) {}

  const Value* Find(std::string_view key) const {
    for (const Field& field : fields_) {
      if (field.key == key)
        return std::holds_alternative<Null>(field.value) ? nullptr : &field.value;
    }
    return nullptr;
  }
  // A name, an id, a hash or the like. The server copies these into queues and tables, and charges
  // no user for them, so they are short.
  std::string_view Text(std::string_view key) {
    const auto text = LongText(key);
    if (text.size() <= limits_.max_name_bytes) return text;
    return Complain<std::string_view>(
        fmt::format("the field '{}' has {} bytes; at most {} are "
                    "allowed",
                    key, text.size(), limits_.max_name_bytes));
  }
  // A text that is charged to the user wherever it is kept.
  std::string_view LongText(std::string_view key) { return Need<std::string_view>(key, "a text"); }
  bool Bool(std::string_view key) { return Need<bool>(key, "true or false"); }
  uint32_t U32(std::string_view key) { return static_cast<uint32_t>(Whole(key, UINT32_MAX)); }
  // Bytes may also come as a text, because older packers have no other type.
  std::string_view Data(std::string_view key) {
    const Value* value = Find(key);
    if (const auto* text = std::get_if<std::string_view>(value)) return *text;
    return Need<Bytes>(key, "bytes").data;
  }
  std::optional<std::string_view> MaybeText(std::string_view key) {
    if (Find(key) == nullptr) return {};
    return Text(key);
  }
  std::optional<uint64_t> MaybeU64(std::string_view key) {
    if (Find(key) == nullptr) return {};
    return Whole(key, UINT64_MAX);
  }
  std::optional<uint32_t> MaybeU32(std::string_view key) {
    if (Find(key) == nullptr) return {};
    return U32(key);
  }
  List MaybeTexts(std::string_view key) {
    return Find(key) == nullptr ? List() : Need<List>(key, "a list of texts");
  }
  Chunk ReadChunk(std::string_view hash_key) {
    return {Text(hash_key), U32("chunk_index"), U32("total_chunks"), Data("chunk_data")};
  }
  const std::string& problem() const { return problem_; }

 private:
  template <class T>
  T Need(std::string_view key, std::string_view wanted) {
    const Value* value = Find(key);
    if (value == nullptr) return Complain<T>(fmt::format("the field '{}' is missing", key));
    if (const T* typed = std::get_if<T>(value)) return *typed;
    return Complain<T>(fmt::format("the field '{}' must be {}", key, wanted));
  }
  uint64_t Whole(std::string_view key, uint64_t most) {
    const auto number = Need<Number>(key, fmt::format("a whole number from 0 to {}", most));
    if (!number.negative && number.value <= most) return number.value;
    return Complain<uint64_t>(
        fmt::format("the field '{}' must be a whole number from 0 to {}", key, most));
  }
  template <class T>
  T Complain(std::string text) {
    if (problem_.empty()) problem_ = std::move(text);
    return {};
  }
  const std::vector<Field>& fields_;
  const Limits& limits_;
  std::string problem_;
};

using Make = ClientMessage (*)(Fields&);
// One function for each of kMessageTypes, in that order. Initialisers in braces are evaluated in
// the order of the fields.
constexpr std::array<Make, kMessageTypes.size()> kMakers = {
    [](Fields& f) -> ClientMessage { return AuthIdentify{f.U32("corr_id"), f.Text("username")}; },
    [](Fields& f) -> ClientMessage { return AuthProve{f.U32("corr_id"), f.Text("signature")}; },
    [](Fields& f) -> ClientMessage { return AuthByToken{f.U32("corr_id"), f.Text("token")}; },
    [](Fields& f) -> ClientMessage {
      return CheckProgram{f.U32("corr_id"), f.Text("name"), f.Text("version"),
                          f.MaybeText("wasm_hash"), f.MaybeText("manifest_hash")};
    },
    [](Fields& f) -> ClientMessage {
      return Query{f.U32("corr_id"), f.Text("subject"), f.MaybeText("record").value_or("")};
    },
    [](Fields& f) -> ClientMessage {
      return AddProgram{f.U32("corr_id"), f.LongText("manifest"), f.Bool("force_overwrite"),
                        f.ReadChunk("program_hash")};
    },
    [](Fields& f) -> ClientMessage {
      return LaunchProcess{f.U32("corr_id"),           f.Text("inferlet"),
                           f.LongText("input"),        f.Bool("capture_outputs"),
                           f.MaybeU64("token_budget"), f.MaybeU64("seen")};
    },
    [](Fields& f) -> ClientMessage {
      return LaunchDaemon{f.U32("corr_id"), f.U32("port"), f.Text("inferlet"), f.LongText("input")};
    },
    [](Fields& f) -> ClientMessage {
      return AttachProcess{f.U32("corr_id"), f.Text("process_id"), f.MaybeU64("seen")};
    },
    [](Fields& f) -> ClientMessage {
      return TerminateProcess{f.U32("corr_id"), f.Text("process_id")};
    },
    [](Fields& f) -> ClientMessage {
      return SignalProcess{f.MaybeU32("corr_id"), f.Text("process_id"), f.LongText("message")};
    },
    [](Fields& f) -> ClientMessage {
      return TransferFile{f.MaybeU32("corr_id"), f.Text("process_id"), f.ReadChunk("file_hash")};
    },
    [](Fields& f) -> ClientMessage { return ListProcesses{f.U32("corr_id")}; },
    [](Fields& f) -> ClientMessage { return Ping{f.U32("corr_id")}; },
    [](Fields& f) -> ClientMessage {
      return RegisterMcpServer{f.U32("corr_id"),       f.Text("name"),     f.Text("transport"),
                               f.MaybeText("command"), f.MaybeText("url"), f.MaybeTexts("args")};
    },
    [](Fields& f) -> ClientMessage {
      return McpResponse{f.U32("corr_id"), f.Bool("ok"), f.LongText("result")};
    },
    [](Fields& f) -> ClientMessage {
      return RestartDaemon{f.U32("corr_id"), f.Text("process_id")};
    },
};

// Reads only the corr_id, to answer messages that are otherwise malformed.
std::optional<uint32_t> CorrIdOf(const std::vector<Field>& fields, const Limits& limits) {
  Fields alone(fields, limits);
  auto corr_id = alone.MaybeU32("corr_id");
  return alone.problem().empty() ? corr_id : std::nullopt;
}

// Writes a map directly with packer calls, without building a tree, because it runs for every
// token.
class FrameWriter {
 public:
  FrameWriter(size_t fields, size_t expected_bytes) : packer_(buffer_) {
    buffer_.text.reserve(expected_bytes + 128);
    packer_.pack_map(static_cast<uint32_t>(fields));
  }
  FrameWriter& Text(std::string_view key, std::string_view value) {
    Word(key);
    Word(value);
    return *this;
  }
  FrameWriter& Number(std::string_view key, uint64_t value) {
    Word(key);
    packer_.pack_uint64(value);
    return *this;
  }
  FrameWriter& Bool(std::string_view key, bool value) {
    Word(key);
    value ? packer_.pack_true() : packer_.pack_false();
    return *this;
  }
  FrameWriter& Data(std::string_view key, std::string_view value) {
    Word(key);
    packer_.pack_bin(static_cast<uint32_t>(value.size()));
    packer_.pack_bin_body(value.data(), static_cast<uint32_t>(value.size()));
    return *this;
  }
  std::string Take() { return std::move(buffer_.text); }

 private:
  struct Buffer {
    std::string text;
    void write(const char* data, size_t size) { text.append(data, size); }
  };
  void Word(std::string_view text) {
    packer_.pack_str(static_cast<uint32_t>(text.size()));
    packer_.pack_str_body(text.data(), static_cast<uint32_t>(text.size()));
  }
  Buffer buffer_;
  msgpack::packer<Buffer> packer_;
};

constexpr std::array<std::string_view, 5> kEventNames = {"stdout", "stderr", "message", "return",
                                                         "error"};

}  // namespace

std::expected<ClientMessage, BadFrame> Decode(std::string_view frame, const Limits& limits) {
  MapReader reader(limits);
  size_t end = 0;
  const bool whole = msgpack::parse(frame.data(), frame.size(), end, reader);
  if (!whole || !reader.problem.empty()) {
    return std::unexpected(
        BadFrame{{},
                 fmt::format("bad frame: {}", reader.problem.empty() ? "the message must be a map"
                                                                     : reader.problem)});
  }
  const auto corr_id = CorrIdOf(reader.fields, limits);
  if (end != frame.size()) {
    return std::unexpected(BadFrame{
        corr_id, fmt::format("bad frame: {} bytes follow the message", frame.size() - end)});
  }
  Fields fields(reader.fields, limits);
  const std::string_view tag = fields.Text("type");
  if (!fields.problem().empty()) return std::unexpected(BadFrame{corr_id, fields.problem()});
  for (size_t i = 0; i < kMessageTypes.size(); ++i) {
    if (kMessageTypes[i].tag != tag) continue;
    ClientMessage message = kMakers[i](fields);
    if (fields.problem().empty()) return message;
    return std::unexpected(BadFrame{corr_id, fmt::format("{}: {}", tag, fields.problem())});
  }
  return std::unexpected(
      BadFrame{corr_id, fmt::format("unknown message type '{}'", tag.substr(0, 64))});
}

std::string EncodeResponse(uint32_t corr_id, bool ok, std::string_view result) {
  const std::string text = ToValidUtf8(result);  // an error may quote malformed text of a client
  return FrameWriter(4, text.size())
      .Text("type", "response")
      .Number("corr_id", corr_id)
      .Bool("ok", ok)
      .Text("result", text)
      .Take();
}

std::string EncodeEvent(std::string_view process_id, EventKind kind, std::string_view value,
                        std::optional<uint64_t> seq) {
  FrameWriter frame(seq ? 5 : 4, value.size());
  frame.Text("type", "process_event")
      .Text("process_id", process_id)
      .Text("event", kEventNames[static_cast<size_t>(kind)])
      .Text("value", value);
  if (seq) frame.Number("seq", *seq);
  return frame.Take();
}

std::string EncodeFileChunk(std::string_view process_id, const Chunk& chunk,
                            std::optional<uint64_t> seq) {
  FrameWriter frame(seq ? 7 : 6, chunk.data.size() + 64);
  frame.Text("type", "file")
      .Text("process_id", process_id)
      .Text("file_hash", chunk.hash)
      .Number("chunk_index", chunk.index)
      .Number("total_chunks", chunk.total)
      .Data("chunk_data", chunk.data);
  if (seq) frame.Number("seq", *seq);
  return frame.Take();
}

std::string EncodeMcpRequest(uint32_t corr_id, std::string_view process_id, std::string_view server,
                             std::string_view method, std::string_view params) {
  return FrameWriter(6, params.size())
      .Text("type", "mcp_request")
      .Number("corr_id", corr_id)
      .Text("process_id", process_id)
      .Text("server_name", server)
      .Text("method", method)
      .Text("params", params)
      .Take();
}

void FuzzDecode(std::string_view frame) {
  const Limits limits;
  auto message = Decode(frame, limits);
  if (!message) {
    PIE_CHECK(!message.error().text.empty());
    return;
  }
  // A view that points outside the frame would be read after it is freed.
  auto inside = [&](std::string_view text) {
    PIE_CHECK(text.empty() || (text.data() >= frame.data() &&
                               text.data() + text.size() <= frame.data() + frame.size()));
  };
  if (const auto* add = std::get_if<AddProgram>(&*message)) inside(add->chunk.data);
  if (const auto* launch = std::get_if<LaunchProcess>(&*message)) inside(launch->input);
  if (const auto* mcp = std::get_if<RegisterMcpServer>(&*message)) {
    for (std::string_view arg : mcp->args) inside(arg);
  }
}

}  // namespace pie::server
