//! The environment that the first design of the store was started with, and that still works: with `HTTP_PORT`
//! set, `GRPC_PORT`, `SEED_IP` and `SEED_PORT` say where a node listens and which node it joins, and nodes that are started
//! so have their data side by side in one folder. Variables go in, values of our own settings come out; flags and
//! `ALTHING_…` variables win over them.

use crate::config::setting::Id;
use crate::config::values::{Origin, Value};

const HTTP_PORT: &str = "HTTP_PORT";
const GRPC_PORT: &str = "GRPC_PORT";
const SEED_IP: &str = "SEED_IP";
const SEED_PORT: &str = "SEED_PORT";
const GRPC_PORT_DEFAULT: &str = "9090";
const LOOPBACK: &str = "127.0.0.1";

/// Whether a node is started by the old variables.
pub fn is_set(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    variable(HTTP_PORT).is_some()
}

/// The value of a setting by the old variables.
pub fn value_of(id: Id, variable: &dyn Fn(&str) -> Option<String>) -> Option<Value> {
    let http_port = variable(HTTP_PORT)?;
    let (grpc_port, named_by) = match variable(GRPC_PORT) {
        Some(port) => (port, GRPC_PORT),
        None => (GRPC_PORT_DEFAULT.to_owned(), HTTP_PORT),
    };
    let (text, name) = match id {
        Id::Name => (format!("node-{http_port}"), HTTP_PORT),
        Id::DataDir => (format!("althing-data/{http_port}"), HTTP_PORT),
        Id::HttpAddr => (format!("{LOOPBACK}:{http_port}"), HTTP_PORT),
        // One port for clients of etcd and for the other nodes.
        Id::ClientAddr | Id::PeerAddr => (format!("{LOOPBACK}:{grpc_port}"), named_by),
        Id::Join => (seed(variable, &grpc_port)?, SEED_PORT),
        _ => return None,
    };
    Some(Value { text, origin: Origin::Environment(name.to_owned()) })
}

/// The node to join. One that is its own seed is the first.
fn seed(variable: &dyn Fn(&str) -> Option<String>, grpc_port: &str) -> Option<String> {
    let (ip, port) = (variable(SEED_IP), variable(SEED_PORT));
    if ip.is_none() && port.is_none() {
        return None;
    }
    let ip = ip.unwrap_or_else(|| LOOPBACK.to_owned());
    let port = port.unwrap_or_else(|| GRPC_PORT_DEFAULT.to_owned());
    let itself = port == grpc_port && (ip == LOOPBACK || ip == "localhost");
    (!itself).then(|| format!("{ip}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(id: Id, variables: &[(&str, &str)]) -> Option<String> {
        let variable = |wanted: &str| {
            variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned())
        };
        value_of(id, &variable).map(|value| value.text)
    }

    #[test]
    fn the_three_nodes_of_the_first_design_find_each_other() {
        let second =
            [("HTTP_PORT", "8081"), ("GRPC_PORT", "9091"), ("SEED_IP", "127.0.0.1"), ("SEED_PORT", "9090")];
        let of = |id| read(id, &second).unwrap();
        assert_eq!(
            (of(Id::HttpAddr), of(Id::Join)),
            ("127.0.0.1:8081".to_owned(), "127.0.0.1:9090".to_owned())
        );
        assert_eq!((of(Id::ClientAddr), of(Id::PeerAddr)), ("127.0.0.1:9091".to_owned(), of(Id::ClientAddr)));
        assert_eq!((of(Id::DataDir), of(Id::Name)), ("althing-data/8081".to_owned(), "node-8081".to_owned()));
        assert_eq!(read(Id::HeartbeatMs, &second), None);
    }

    #[test]
    fn the_first_node_joins_no_node_and_without_a_port_nothing_is_set() {
        let first = [("HTTP_PORT", "8080"), ("GRPC_PORT", "9090")];
        assert_eq!(read(Id::Join, &first), None);
        let itself = [&first[..], &[("SEED_IP", "localhost"), ("SEED_PORT", "9090")]].concat();
        assert_eq!(read(Id::Join, &itself), None);
        assert_eq!(read(Id::Join, &[("GRPC_PORT", "9091"), ("SEED_PORT", "9090")]), None);
        assert_eq!(read(Id::PeerAddr, &[("HTTP_PORT", "8080")]), Some("127.0.0.1:9090".to_owned()));
    }
}
