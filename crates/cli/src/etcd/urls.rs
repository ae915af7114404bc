//! etcd's URLs: `http://host:port` or `https://host:port`, or `unix://path` and `unixs://path`, in lists separated by
//! commas. A text goes in; the host and port or the path come out, and whether TLS is used, or a sentence that says
//! what is wrong with it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// `host:port`, or the path of a Unix socket.
    pub place: String,
    /// With TLS.
    pub sealed: bool,
    pub is_unix: bool,
}

impl Url {
    /// As it was given.
    pub fn text(&self) -> String {
        let scheme = match (self.is_unix, self.sealed) {
            (true, true) => "unixs",
            (true, false) => "unix",
            (false, true) => "https",
            (false, false) => "http",
        };
        format!("{scheme}://{}", self.place)
    }
}

pub fn parse_all(list: &str) -> Result<Vec<Url>, String> {
    list.split(',').map(|url| parse(url.trim())).collect()
}

pub fn parse(url: &str) -> Result<Url, String> {
    let (scheme, rest) =
        url.split_once("://").ok_or_else(|| format!("\"{url}\" is not a URL, as http://127.0.0.1:2379"))?;
    match scheme {
        "http" | "https" => {}
        "unix" | "unixs" if rest.is_empty() => return Err(format!("{url}: a Unix socket needs a path")),
        "unix" | "unixs" => {
            return Ok(Url { place: rest.to_owned(), sealed: scheme == "unixs", is_unix: true });
        }
        _ => return Err(format!("{url}: the scheme must be http, https, unix or unixs")),
    }
    let host_port = rest.strip_suffix('/').unwrap_or(rest);
    if host_port.contains(['/', '?', '#', '@']) {
        return Err(format!("{url}: a URL must have no path, as http://127.0.0.1:2379"));
    }
    let Some((host, port)) = host_port.rsplit_once(':') else {
        return Err(format!("{url}: a URL needs a port, as http://127.0.0.1:2379"));
    };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || port.parse::<u16>().is_err() || (host.contains(':') && !bracketed) {
        return Err(format!("{url} is not of the form http://HOST:PORT"));
    }
    Ok(Url { place: host_port.to_owned(), sealed: scheme == "https", is_unix: false })
}

/// An address to listen on; a name other than `localhost` is refused, as etcd does.
pub fn to_listen(host_port: &str) -> Result<SocketAddr, String> {
    let (host, port) = host_port.rsplit_once(':').expect("parsed to have a port");
    let port = port.parse().expect("parsed to be a port");
    if host == "localhost" {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    host_port.parse().map_err(|_| {
        format!(
            "expected IP in URL for binding (http://{host_port}); use an address of this machine, or 0.0.0.0"
        )
    })
}

/// True when both texts lead to the same place, as `localhost:1` and `127.0.0.1:1` do.
pub fn same_place(one: &str, other: &str) -> bool {
    let places = |text: &str| text.to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
    one == other || {
        let others = places(other);
        places(one).iter().any(|place| others.contains(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_urls_is_a_list_of_hosts_and_ports() {
        let list = parse_all("http://127.0.0.1:2379, https://db.example:80/,http://[::1]:2379").unwrap();
        let url = |place: &str, sealed| Url { place: place.to_owned(), sealed, is_unix: false };
        let expected = [url("127.0.0.1:2379", false), url("db.example:80", true), url("[::1]:2379", false)];
        assert_eq!(list, expected);
    }

    #[test]
    fn a_unix_socket_has_a_path_as_etcd_writes_it() {
        for (text, place, sealed) in [
            ("unix://localhost:m0", "localhost:m0", false),
            ("unixs:///run/etcd.sock", "/run/etcd.sock", true),
        ] {
            let url = parse(text).unwrap();
            assert_eq!(url, Url { place: place.to_owned(), sealed, is_unix: true });
            assert_eq!(url.text(), text);
        }
        assert!(parse("unix://").is_err());
    }

    #[test]
    fn what_cannot_be_served_is_refused_with_a_reason() {
        let table = [
            ("ftp://127.0.0.1:1", "must be http, https, unix or unixs"),
            ("127.0.0.1:1", "is not a URL"),
            ("http://127.0.0.1", "needs a port"),
            ("http://127.0.0.1:1/path", "no path"),
            ("http://:1", "http://HOST:PORT"),
            ("http://::1:1", "http://HOST:PORT"),
            ("http://a:99999", "http://HOST:PORT"),
            ("", "is not a URL"),
        ];
        for (url, reason) in table {
            let refusal = parse(url).unwrap_err();
            assert!(refusal.contains(reason), "{url}: {refusal}");
        }
    }

    #[test]
    fn only_addresses_and_localhost_are_listened_on() {
        assert_eq!(to_listen("localhost:1").unwrap(), "127.0.0.1:1".parse().unwrap());
        assert_eq!(to_listen("[::]:1").unwrap(), "[::]:1".parse().unwrap());
        assert!(to_listen("db.example:1").unwrap_err().contains("expected IP in URL for binding"));
    }

    #[test]
    fn localhost_and_the_loopback_address_are_the_same_place() {
        assert!(same_place("localhost:1", "127.0.0.1:1"));
        assert!(!same_place("127.0.0.1:2", "127.0.0.1:1"));
    }
}
