// WebAccess: what the web pages in a browser may do with this server.
//
// A browser sends requests to this machine on behalf of any web page. On a port that asks for no
// login, nothing but the request's head tells whose page that is: its Host, because an attacker's
// name may point to this machine (DNS rebinding), its Origin, and its Sec-Fetch-Site where there is
// no Origin. Immutable.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pie::server {

// The parts of a request that the routes use: the first line, and the values of some headers, which
// may be empty.
struct Asked {
  std::string_view method, target, authorization, origin, host, if_none_match;
  std::string_view api_key = {};  // x-api-key, as clients of the Anthropic API send it
  std::string_view fetch_site = {}, fetch_mode = {}, fetch_dest = {};  // Sec-Fetch-…
  // Access-Control-Request-Method and -Headers: a browser asks whether it may send a request.
  std::string_view preflight_method = {}, preflight_headers = {};
  bool upgrade = false;  // to a WebSocket
  bool secure = false;   // it came over TLS
};

class WebAccess {
 public:
  struct Options {
    std::vector<std::string> hosts;    // names of the server, besides localhost and the bound name
    std::vector<std::string> origins;  // whose pages may send requests, such as https://a.example
    // Inferlets whose documents may send requests to every part of the server.
    std::vector<std::string> trusted_apps;
  };
  // `bound` is the name or the address on which the server listens.
  WebAccess(Options options, std::string_view bound);

  // Returns why a port that asks for no login refuses a request. Empty: it may be answered.
  std::string RefusalOf(const Asked& asked) const;
  // Returns the origin whose page may read the response. Empty: none but that of the server.
  std::string_view ReaderOf(const Asked& asked) const;
  bool Trusts(std::string_view program) const;
  // Returns the address to which a browser that opens a document at an IPv6 address is redirected,
  // because a policy cannot name that address: localhost instead of the loopback, and otherwise the
  // first name in the options. Empty: it is not redirected.
  std::string NamedPlaceOf(const Asked& asked) const;

 private:
  bool IsNameOfServer(std::string_view host) const;
  Options options_;
};

// How the response of an inferlet is changed before it is sent.
struct HeadGuard {
  // A user who may install inferlets chose the response, and it shares the origin of the server's
  // page. So it may not set headers that act on the whole origin.
  bool shares_origin = false;
  // The Content-Security-Policy that is added to the response. Null: none.
  std::shared_ptr<const std::string> policy = {};
  std::string reader = {};  // the origin whose page may read the response
};
// The policy that keeps scripts of an inferlet's document away from what belongs to the server's
// page, above all from its WebSocket. They may connect to the paths below `prefixes`, and to other
// servers.
std::string PolicyOf(const Asked& asked, std::span<const std::string> prefixes);

// The policies of documents. A policy lists all route prefixes of the config, so it is made once
// for each address of the server and each inferlet, and kept as long as there are few of them. IO
// thread.
class Policies {
 public:
  explicit Policies(std::vector<std::string> prefixes) : prefixes_(std::move(prefixes)) {}
  // The policy of documents of the inferlet that answers the paths below `prefix`.
  std::shared_ptr<const std::string> Of(const Asked& asked, std::string_view prefix);

 private:
  std::vector<std::string> prefixes_;
  std::map<std::string, std::shared_ptr<const std::string>, std::less<>> made_;
};

// `lines` have the form `name:value`.
std::string GuardedHead(const HeadGuard& guard, std::string_view lines);

}  // namespace pie::server
