//! The list of hosts that guests may reach by HTTP: what an entry means, and which addresses need an entry of their own.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The most entries of the list, and the longest one.
const MAX_ENTRIES: usize = 1024;
const MAX_ENTRY_BYTES: usize = 300;

/// One entry: a host, and a port if the entry has one. Without a port, it stands for the ports 80 and 443.
#[derive(Debug)]
struct Entry {
    host: Host,
    port: Option<u16>,
}

#[derive(Debug)]
enum Host {
    /// `api.example.com`
    Name(String),
    /// `*.example.org`: the names below it. This is the part after the star, with its dot.
    Below(String),
    /// `*`: every name, and every public address.
    Any,
    /// `10.0.0.7` or `10.0.0.0/8`: addresses, private or not.
    Net(IpAddr, u32),
}

/// The whole list. An empty list allows nothing.
#[derive(Debug, Default)]
pub struct AllowList(Vec<Entry>);

impl AllowList {
    pub fn parse<'a>(entries: impl Iterator<Item = &'a str>) -> Result<AllowList, String> {
        let list: Result<Vec<Entry>, String> = entries.map(Entry::parse).collect();
        let list = list?;
        if list.len() > MAX_ENTRIES {
            return Err(format!(
                "runtime.http.allow has {} entries; at most {MAX_ENTRIES} are allowed",
                list.len()
            ));
        }
        Ok(AllowList(list))
    }

    /// Whether a request may name this host, a name or an address without brackets. The addresses of a name are checked apart.
    pub fn names(&self, host: &str, port: u16) -> bool {
        let host = canonical(host);
        match host.parse::<IpAddr>() {
            Ok(address) => self.reaches(&host, address, port),
            Err(_) => self.0.iter().any(|entry| entry.names(&host, port)),
        }
    }

    /// Whether the engine may connect to this address of a host that the list names. An address that is not public
    /// needs an entry of its own, whatever names lead to it; `localhost` stands for the addresses of this machine.
    pub fn reaches(&self, host: &str, address: IpAddr, port: u16) -> bool {
        let host = canonical(host);
        let address = unmapped(address);
        let literal = host.parse::<IpAddr>().is_ok();
        self.0.iter().any(|entry| {
            entry.has_port(port)
                && match &entry.host {
                    Host::Net(net, bits) => in_net(address, *net, *bits),
                    Host::Any => is_public(address),
                    Host::Name(name) if name == "localhost" && host == *name => {
                        address.is_loopback()
                    }
                    _ => !literal && entry.names(&host, port) && is_public(address),
                }
        })
    }
}

impl Entry {
    fn parse(text: &str) -> Result<Entry, String> {
        let wrong = |why: &str| {
            Err(format!(
                "runtime.http.allow: '{}' {why}; write a name, an address or a network, and a port if it is not 80 or 443: \
                 \"api.example.com\", \"*.example.org:8443\", \"[::1]:8080\", \"10.0.0.0/8\"",
                text.chars().take(80).collect::<String>()
            ))
        };
        if text.is_empty() || text.len() > MAX_ENTRY_BYTES {
            return wrong("is empty or too long");
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((host, "")) => (host, None),
                Some((host, port)) if port.starts_with(':') => (host, Some(&port[1..])),
                _ => return wrong("has no closing bracket"),
            },
            None if text.matches(':').count() > 1 => (text, None), // an IPv6 address
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(port)) if port > 0 => Some(port),
            Some(_) => return wrong("has no valid port"),
        };
        let host = canonical(host);
        if let Some((net, bits)) = host.split_once('/') {
            return match (net.parse::<IpAddr>(), bits.parse::<u32>()) {
                (Ok(net), Ok(bits)) if bits <= width(net) => {
                    // A network of mapped addresses is the IPv4 network, as the addresses are.
                    let (net, bits) = match (unmapped(net), bits.checked_sub(96)) {
                        (v4 @ IpAddr::V4(_), Some(rest)) if net.is_ipv6() => (v4, rest),
                        _ => (net, bits),
                    };
                    Ok(Entry {
                        host: Host::Net(net, bits),
                        port,
                    })
                }
                _ => wrong("is not a network"),
            };
        }
        if let Ok(address) = host.parse::<IpAddr>() {
            let address = unmapped(address);
            return Ok(Entry {
                host: Host::Net(address, width(address)),
                port,
            });
        }
        let is_name = |name: &str| {
            let mut labels = name.split('.');
            let is_label = |label: &str| {
                !label.is_empty()
                    && label
                        .bytes()
                        .all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
            };
            labels.all(is_label)
        };
        let host = match host.strip_prefix('*') {
            Some("") => Host::Any,
            Some(below) if below.starts_with('.') && is_name(&below[1..]) => {
                Host::Below(below.to_string())
            }
            None if is_name(&host) => Host::Name(host),
            _ => return wrong("is not a host"),
        };
        Ok(Entry { host, port })
    }

    fn has_port(&self, port: u16) -> bool {
        self.port
            .map_or(port == 80 || port == 443, |own| own == port)
    }

    fn names(&self, host: &str, port: u16) -> bool {
        self.has_port(port)
            && match &self.host {
                Host::Name(name) => name == host,
                Host::Below(below) => host.len() > below.len() && host.ends_with(below.as_str()),
                Host::Any => true,
                Host::Net(..) => false,
            }
    }
}

/// Names are compared in lower case and without the dot of the root.
fn canonical(host: &str) -> String {
    let host = host.strip_suffix('.').unwrap_or(host);
    host.to_ascii_lowercase()
}

fn width(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// An IPv4 address in the form of an IPv6 address counts as the IPv4 address.
fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

fn in_net(address: IpAddr, net: IpAddr, bits: u32) -> bool {
    let (address, net, width) = match (address, net) {
        (IpAddr::V4(a), IpAddr::V4(n)) => (u128::from(a.to_bits()), u128::from(n.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(n)) => (a.to_bits(), n.to_bits(), 128),
        _ => return false,
    };
    let shift = width - bits;
    shift >= 128 || address >> shift == net >> shift
}

/// Whether an address belongs to the public internet: it is not of this machine, of a private or link-local network, or
/// reserved.
fn is_public(address: IpAddr) -> bool {
    match unmapped(address) {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    let reserved = a == 0                           // this network
        || a >= 240                                 // reserved, broadcast
        || (a == 100 && (64..128).contains(&b))     // shared by a carrier's customers
        || (a == 192 && b == 0 && c == 0)           // protocol assignments
        || (a == 198 && (b == 18 || b == 19)); // benchmarks
    !(reserved
        || v4.is_private()
        || v4.is_loopback()
        || v4.is_link_local()
        || v4.is_multicast()
        || v4.is_documentation())
}

fn is_public_v6(v6: Ipv6Addr) -> bool {
    let s = v6.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low), // NAT64
        [0x2002, high, low, ..] => embedded(high, low),               // 6to4
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => false, // Teredo and others, documentation
        [0x3fff, second, ..] if second < 0x1000 => false,                   // documentation
        [first, ..] => (0x2000..0x4000).contains(&first), // all addresses that are assigned for public use
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> AllowList {
        AllowList::parse(entries.iter().copied()).unwrap()
    }
    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_empty_list_allows_nothing() {
        let none = AllowList::default();
        assert!(!none.names("example.com", 443));
        assert!(!none.names("127.0.0.1", 80));
        assert!(!none.reaches("example.com", ip("93.184.216.34"), 443));
    }

    #[test]
    fn names_and_ports() {
        let list = list(&["api.example.com", "*.example.org:8443", "[2606:4700::1]:80"]);
        assert!(list.names("api.example.com", 443) && list.names("API.Example.COM.", 80));
        assert!(!list.names("api.example.com", 8080));
        assert!(!list.names("x.api.example.com", 443) && !list.names("example.com", 443));
        assert!(list.names("a.example.org", 8443) && list.names("a.b.example.org", 8443));
        assert!(!list.names("example.org", 8443) && !list.names("a.example.org", 443));
        assert!(!list.names("evilexample.org", 8443));
        assert!(list.names("2606:4700::1", 80) && !list.names("2606:4700::2", 80));
    }

    #[test]
    fn a_private_address_needs_its_own_entry() {
        let named = list(&["*", "api.example.com"]);
        for address in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:0:1::",
            "2001:db8::1",
            "3fff::1",
            "3fff:fff::1",
        ] {
            assert!(
                !named.reaches("api.example.com", ip(address), 443),
                "{address}"
            );
            assert!(!named.names(address, 443), "{address}");
        }
        assert!(named.reaches("api.example.com", ip("93.184.216.34"), 443));
        assert!(named.reaches("api.example.com", ip("2606:4700::1111"), 443));
        let own = list(&["api.example.com", "10.0.0.0/8", "169.254.169.254:80"]);
        assert!(own.reaches("api.example.com", ip("10.1.2.3"), 443));
        assert!(own.reaches("api.example.com", ip("::ffff:10.1.2.3"), 443));
        assert!(!own.reaches("api.example.com", ip("11.0.0.1").to_canonical(), 8080));
        assert!(own.names("169.254.169.254", 80) && !own.names("169.254.169.254", 443));
        assert!(!own.names("192.168.0.1", 80));
        let mapped = list(&["::ffff:10.1.0.0/112", "[::ffff:10.2.0.1]:80"]);
        assert!(mapped.reaches("api.example.com", ip("10.1.2.3"), 443));
        assert!(mapped.names("10.1.2.3", 443) && mapped.names("::ffff:10.1.2.3", 443));
        assert!(mapped.names("10.2.0.1", 80) && !mapped.names("10.2.0.2", 80));
        assert!(!mapped.names("10.3.0.1", 80) && !mapped.names("::ffff:10.3.0.1", 443));
    }

    #[test]
    fn localhost_stands_for_this_machine_alone() {
        let list = list(&["localhost:5000"]);
        assert!(list.names("localhost", 5000) && !list.names("localhost", 80));
        assert!(list.reaches("localhost", ip("127.0.0.1"), 5000));
        assert!(list.reaches("localhost", ip("::1"), 5000));
        assert!(!list.reaches("localhost", ip("10.0.0.1"), 5000));
        assert!(!list.names("127.0.0.1", 5000));
    }

    #[test]
    fn an_address_that_the_list_names_is_reached_by_its_number_only_if_it_has_an_entry() {
        let list = list(&["example.com"]);
        assert!(!list.names("93.184.216.34", 443));
    }

    #[test]
    fn bad_entries_are_refused() {
        for entry in [
            "",
            "http://example.com",
            "example.com/path",
            "example.com:0",
            "example.com:99999",
            "example.com:http",
            "*example.com",
            "a.*.com",
            "[::1",
            "10.0.0.0/33",
            "exa mple.com",
            "a..b",
        ] {
            assert!(AllowList::parse([entry].into_iter()).is_err(), "{entry}");
        }
        let many = vec!["a.com"; MAX_ENTRIES + 1];
        assert!(AllowList::parse(many.into_iter()).is_err());
    }
}
