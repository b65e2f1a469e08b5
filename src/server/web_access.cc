#include "server/web_access.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace pie::server {
namespace {

constexpr size_t kMostNamedBytes = 128;  // of a header's value in an error
// A client chooses the address and the inferlet of a policy, so only a few policies are kept, and
// only for short addresses.
constexpr size_t kMostPolicies = 256;
constexpr size_t kMostPolicyKeyBytes = 512;

// The policy for documents at an address that a policy cannot name. Without allow-same-origin, they
// have an origin of their own, so they cannot read the server's answers.
constexpr std::string_view kSandbox =
    "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads";

// Headers that act on the whole origin, or on all ports of the host.
constexpr std::string_view kOfOrigin[] = {
    "service-worker-allowed",
    "set-cookie",
    "clear-site-data",
    "strict-transport-security",
    "alt-svc",
    "nel",
    "report-to",
};

constexpr std::string_view kCors = "access-control-";

template <class List>
bool Contains(const List& list, std::string_view one) {
  return std::ranges::find(list, one) != std::end(list);
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  return lower;
}

// Returns the host and the port of an address, which may begin with a scheme.
std::string_view AuthorityOf(std::string_view address) {
  if (const size_t scheme = address.find("://"); scheme != std::string_view::npos) {
    address.remove_prefix(scheme + 3);
  }
  return address.substr(0, address.find('/'));
}

// Returns an address without its scheme and port.
std::string_view HostOf(std::string_view address) {
  address = AuthorityOf(address);
  const size_t bracket = address.starts_with('[') ? address.find(']') : 0;
  return bracket == std::string_view::npos ? address
                                           : address.substr(0, address.find(':', bracket));
}

bool IsLocalName(std::string_view host) {
  // Browsers resolve these names themselves.
  return host == "localhost" || host.ends_with(".localhost");
}

bool IsThisMachine(std::string_view host) {
  return IsLocalName(host) || host == "127.0.0.1" || host == "[::1]";
}

// No name leads to an address that is written out, so it cannot be rebound.
bool IsAddress(const std::string& host) {
  in6_addr parsed;
  if (host.starts_with('[') && host.ends_with(']')) {
    return inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &parsed) == 1;
  }
  return inet_pton(AF_INET, host.c_str(), &parsed) == 1;
}

// Whether a policy can name the host: policies accept no IPv6 addresses, and some characters end a
// name.
bool CanBeNamed(std::string_view place) {
  return !place.empty() && std::ranges::all_of(place, [](char c) {
    const char lower = static_cast<char>(c | 0x20);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view(".-_~@:/").find(c) != std::string_view::npos;
  });
}

}  // namespace

WebAccess::WebAccess(Options options, std::string_view bound) : options_(std::move(options)) {
  options_.hosts.emplace_back(bound);
  for (std::string& host : options_.hosts) host = Lower(host);
  for (std::string& origin : options_.origins) origin = Lower(origin);
}

bool WebAccess::IsNameOfServer(std::string_view host) const {
  std::string name = Lower(HostOf(host));
  if (name.ends_with('.')) name.pop_back();
  return IsLocalName(name) || IsAddress(name) || Contains(options_.hosts, name);
}

std::string WebAccess::RefusalOf(const Asked& asked) const {
  // Browsers name the origin when they open a WebSocket, and a host when they send a request.
  const bool browser = !asked.origin.empty() || !(asked.upgrade || asked.host.empty());
  if (!browser) return {};
  if (!IsNameOfServer(asked.host)) {
    return fmt::format(
        "this server has no name '{}'. Without authentication it answers to "
        "addresses, to localhost and to the names in server.allowed_hosts of its config",
        HostOf(asked.host).substr(0, kMostNamedBytes));
  }
  const std::string origin = Lower(HostOf(asked.origin)), host = Lower(HostOf(asked.host));
  if (!asked.origin.empty()) {
    const bool own = Lower(AuthorityOf(asked.origin)) == Lower(asked.host);
    const bool local = IsThisMachine(origin) && IsThisMachine(host);
    const bool listed = Contains(options_.origins, Lower(asked.origin));
    if (own || local || listed) return {};
    return fmt::format(
        "web pages of the origin '{}' may not send requests to this server; name the origin in "
        "server.allowed_origins of its config to allow them",
        asked.origin.substr(0, kMostNamedBytes));
  }
  const bool foreign =
      asked.fetch_site == "cross-site" || (asked.fetch_site == "same-site" && !IsThisMachine(host));
  // A link to this server may be followed: the page that has it cannot read what it leads to.
  const bool link =
      asked.method == "GET" && asked.fetch_mode == "navigate" && asked.fetch_dest == "document";
  if (!foreign || link) return {};
  return "web pages of other sites may not send requests to this server";
}

std::string_view WebAccess::ReaderOf(const Asked& asked) const {
  if (asked.origin.empty()) return {};
  return Contains(options_.origins, Lower(asked.origin)) ? asked.origin : std::string_view();
}

bool WebAccess::Trusts(std::string_view program) const {
  return Contains(options_.trusted_apps, program.substr(0, program.find('@')));
}

std::string PolicyOf(const Asked& asked, std::span<const std::string> prefixes) {
  std::string places;
  if (!CanBeNamed(asked.host)) return std::string(kSandbox);
  for (const std::string& prefix : prefixes) {
    if (!CanBeNamed(prefix)) return std::string(kSandbox);
    places += fmt::format(" {}{}{}", asked.host, prefix, prefix.ends_with('/') ? "" : "/");
  }
  // Over TLS, "https:" and "wss:" would name this server, too.
  const std::string_view others = asked.secure ? "" : " https: wss:";
  return fmt::format(
      "connect-src data: blob:{0}{1}; frame-src data: blob:{0}{1}; object-src 'none'", others,
      places);
}

std::shared_ptr<const std::string> Policies::Of(const Asked& asked, std::string_view prefix) {
  const std::string key = fmt::format("{}\n{}\n{}", asked.secure ? "s" : "", asked.host, prefix);
  if (const auto found = made_.find(key); found != made_.end()) return found->second;
  std::vector<std::string> all = {std::string(prefix)};
  all.insert(all.end(), prefixes_.begin(), prefixes_.end());
  auto made = std::make_shared<const std::string>(PolicyOf(asked, all));
  if (made_.size() >= kMostPolicies) made_.clear();
  if (key.size() <= kMostPolicyKeyBytes) made_[key] = made;
  return made;
}

std::string WebAccess::NamedPlaceOf(const Asked& asked) const {
  // The certificate of a server with TLS need not have the other name.
  if (asked.secure || asked.method != "GET" || asked.fetch_mode != "navigate") return {};
  const std::string address(HostOf(asked.host));
  if (!address.starts_with('[') || !IsAddress(address)) return {};
  const std::string_view port = asked.host.substr(address.size());  // with its colon
  if (!std::ranges::all_of(port, [](char c) { return c == ':' || (c >= '0' && c <= '9'); })) {
    return {};
  }
  if (!asked.target.starts_with('/')) return {};
  if (IsThisMachine(address)) return fmt::format("http://localhost{}{}", port, asked.target);
  const auto name = std::ranges::find_if(options_.hosts, [](const std::string& host) {
    // The address may be written without brackets.
    const bool is_address = IsAddress(host) || host.contains(':');
    return CanBeNamed(host) && !is_address && !IsLocalName(host);
  });
  if (name == options_.hosts.end()) return {};
  return fmt::format("http://{}{}{}", *name, port, asked.target);
}

std::string GuardedHead(const HeadGuard& guard, std::string_view lines) {
  if (guard.policy == nullptr && guard.reader.empty()) return std::string(lines);
  std::string head;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size() - 1) + 1;
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end);
    const std::string name = Lower(line.substr(0, line.find(':')));
    const bool dropped = (guard.shares_origin && Contains(kOfOrigin, name)) ||
                         (!guard.reader.empty() && name.starts_with(kCors));
    if (!dropped) head += line;
  }
  if (!head.empty() && !head.ends_with('\n')) head += '\n';
  if (guard.policy != nullptr) {
    head +=
        fmt::format("content-security-policy:{}\nx-content-type-options:nosniff\n", *guard.policy);
  }
  if (!guard.reader.empty()) {
    head += fmt::format(
        "access-control-allow-origin:{}\naccess-control-expose-headers:*\nvary:Origin\n",
        guard.reader);
  }
  return head;
}

}  // namespace pie::server
