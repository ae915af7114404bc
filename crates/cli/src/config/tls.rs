//! The settings of TLS: the certificates for clients and for peers, the authorities, and what of that
//! does not fit together. Texts go in; names of files come out, or sentences.

use crate::config::setting::Id;
use crate::config::values::Values;
use server::Config;
use std::path::PathBuf;
use tls::{MinVersion, PeerFiles, SelfSigned, ServerFiles};

/// TLS on the ports for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls {
    pub files: ServerFiles,
    pub min: MinVersion,
    /// Whether the name on a client's certificate is that of a user.
    pub names_users: bool,
    /// The files are made if they are not there.
    pub self_signed: Option<SelfSigned>,
}

pub fn clients(values: &Values) -> Option<ClientTls> {
    let own = || match values.text(Id::AutoTls) {
        "true" => Some(self_signed(values, "client", &[Id::ClientAddr, Id::HttpAddr, Id::AdvertiseClient])),
        _ => None,
    };
    let self_signed = if path(values, Id::CertFile).is_none() { own() } else { None };
    let made = |name: &str| self_signed.as_ref().map(|made| made.dir.join(name));
    let files = ServerFiles {
        cert: path(values, Id::CertFile).or_else(|| made("cert.pem"))?,
        key: path(values, Id::KeyFile).or_else(|| made("key.pem"))?,
        ca: path(values, Id::TrustedCaFile),
        crl: path(values, Id::ClientCrlFile),
    };
    let min = match values.text(Id::TlsMinVersion) {
        "1.2" => MinVersion::Tls12,
        _ => MinVersion::Tls13,
    };
    Some(ClientTls { files, min, names_users: values.text(Id::ClientCertAuth) == "true", self_signed })
}

/// A self-signed certificate for the hosts in these settings; stored where etcd stores its own.
pub fn self_signed(values: &Values, port: &str, named_in: &[Id]) -> SelfSigned {
    let host = |id: &Id| {
        let (host, _) = values.text(*id).rsplit_once(':')?;
        Some(host.trim_start_matches('[').trim_end_matches(']').to_owned())
    };
    let mut hosts: Vec<String> = named_in.iter().filter_map(host).collect();
    hosts.push("localhost".to_owned());
    hosts.sort();
    hosts.dedup();
    let dir = PathBuf::from(values.text(Id::DataDir)).join("fixtures").join(port);
    SelfSigned { dir, hosts, years: values.number(Id::SelfSignedCertValidity) }
}

pub fn peers(values: &Values) -> Option<PeerFiles> {
    Some(PeerFiles {
        cert: path(values, Id::PeerCertFile)?,
        key: path(values, Id::PeerKeyFile)?,
        ca: path(values, Id::PeerTrustedCaFile)?,
        crl: path(values, Id::PeerCrlFile),
        allowed_names: vec![],
        allowed_hosts: vec![],
    })
}

pub fn path(values: &Values, id: Id) -> Option<PathBuf> {
    Some(values.text(id)).filter(|text| !text.is_empty()).map(PathBuf::from)
}

/// Settings that need others.
const NEEDS: [(Id, &[Id]); 9] = [
    (Id::JoinToken, &[Id::Join]),
    (Id::CertFile, &[Id::KeyFile]),
    (Id::KeyFile, &[Id::CertFile]),
    (Id::ClientCertAuth, &[Id::TrustedCaFile]),
    (Id::ClientCrlFile, &[Id::TrustedCaFile]),
    (Id::PeerCertFile, &[Id::PeerKeyFile, Id::PeerTrustedCaFile]),
    (Id::PeerKeyFile, &[Id::PeerCertFile]),
    (Id::PeerTrustedCaFile, &[Id::PeerCertFile]),
    (Id::PeerCrlFile, &[Id::PeerTrustedCaFile]),
];

pub fn problems(values: &Values, config: &Config) -> Vec<String> {
    let is_given = |id: Id| !matches!(values.text(id), "" | "false");
    let mut problems = vec![];
    for (id, needed) in NEEDS.iter().filter(|(id, _)| is_given(*id)) {
        for missing in needed.iter().filter(|id| !is_given(**id)) {
            problems.push(format!(
                "{} (from {}) is given without {}; both are needed",
                id.setting().name,
                values.get(*id).origin,
                missing.setting().name,
            ));
        }
    }
    let sealed = [
        Id::CertFile,
        Id::AutoTls,
        Id::PeerCertFile,
        Id::PeerAutoTls,
        Id::ClusterSecretFile,
        Id::RegionSecret,
    ]
    .into_iter()
    .find(|id| is_given(*id));
    if let Some(id) = sealed.filter(|_| config.shares_a_port()) {
        problems.push(format!(
            "client-addr and peer-addr are both {}, and {} (from {}) is given; with TLS, clients and peers each need a \
             port of their own",
            config.client_addr,
            id.setting().name,
            values.get(id).origin,
        ));
    }
    problems
}
