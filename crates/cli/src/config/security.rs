//! The settings of the peer port: how members and regions authenticate.
//! Texts go in, and the files that they name are read; the configuration of the port comes out, or sentences.

use crate::config::check::is_word;
use crate::config::setting::Id;
use crate::config::tls;
use crate::config::values::Values;
use ::tls::Secret;
use server::{Config, PeerSecurity};
use std::path::PathBuf;

/// The secret itself, for places where files are awkward.
pub const CLUSTER_SECRET: &str = "ALTHING_CLUSTER_SECRET";

/// `region=file` for each; nothing for what is not written so.
pub fn parse_region_files(text: &str) -> Option<Vec<(String, PathBuf)>> {
    let one = |pair: &str| {
        let (region, file) = pair.trim().split_once('=')?;
        (is_word(region) && !file.is_empty()).then(|| (region.to_owned(), PathBuf::from(file)))
    };
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    pairs.map(one).collect()
}

/// Fills in how the peer port authenticates; returns what is wrong.
pub fn load(values: &Values, config: &mut Config) -> Vec<String> {
    let mut problems = vec![];
    let mut read = |id: Id, path: PathBuf| {
        let secret = Secret::read(&path);
        let with_origin = |error| format!("{} (from {}): {error}", id.setting().name, values.get(id).origin);
        secret.map_err(|error| problems.push(with_origin(error))).ok()
    };
    let secret = tls::path(values, Id::ClusterSecretFile).and_then(|path| read(Id::ClusterSecretFile, path));
    let files = parse_region_files(values.text(Id::RegionSecret)).unwrap_or_default();
    let regions = files.into_iter().filter_map(|(name, path)| Some((name, read(Id::RegionSecret, path)?)));
    let regions: Vec<(String, Secret)> = regions.collect();
    let self_signed = match values.text(Id::PeerAutoTls) {
        "true" => Some(tls::self_signed(values, "peer", &[Id::PeerAddr, Id::AdvertisePeer])),
        _ => None,
    };
    let is_proven = |name: &String| regions.iter().any(|(proven, _)| proven == name);
    let proves_regions = config.mesh.region_peers.iter().all(|(name, _)| is_proven(name));
    config.peer_security = PeerSecurity {
        files: tls::peers(values),
        secret,
        // Where clients and peers share a port, nothing on it is encrypted, as in the first design; and a cluster that has
        // a secret accepts only regions that have one, too.
        makes_secret: !config.shares_a_port() && self_signed.is_none() && proves_regions,
        self_signed,
        regions,
    };
    let token = values.text(Id::JoinToken);
    if let Some(join) = config.join.as_mut().filter(|_| !token.is_empty()) {
        match token.parse() {
            Ok(token) => join.token = Some(token),
            Err(error) => {
                problems.push(format!("join-token (from {}): {error}", values.get(Id::JoinToken).origin));
            }
        }
    }
    problems
}

/// The secret may also be in the environment; a file takes precedence.
pub fn take_environment(config: &mut Config, variable: Option<String>) -> Result<(), String> {
    let Some(text) = variable.filter(|text| !text.is_empty()) else { return Ok(()) };
    if config.peer_security.secret.is_some() {
        return Ok(());
    }
    let secret = Secret::parse(&text).ok_or_else(|| {
        format!("{CLUSTER_SECRET} is not a secret of {} bytes or more in one line", ::tls::SECRET_BYTES_MIN)
    })?;
    if config.shares_a_port() {
        return Err(format!(
            "{CLUSTER_SECRET} is set, and client-addr and peer-addr are both {}; with a secret, clients and peers each need \
             a port of their own",
            config.client_addr
        ));
    }
    config.peer_security.secret = Some(secret);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_files_are_pairs() {
        let file = |path: &str| PathBuf::from(path);
        assert_eq!(parse_region_files(""), Some(vec![]));
        assert_eq!(
            parse_region_files("eu=/a, us=b=c"),
            Some(vec![("eu".to_owned(), file("/a")), ("us".to_owned(), file("b=c"))])
        );
        for wrong in ["eu", "=a", "eu=", "e u=a"] {
            assert_eq!(parse_region_files(wrong), None, "{wrong}");
        }
    }
}
