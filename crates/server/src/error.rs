//! Why a member does not start. Each says what the operator can do about it.

use crate::status::Identity;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "cannot listen for peers on {address} (--peer-addr): {source}. If the address is in use, stop the \
         process that has it or choose another"
    )]
    PeerAddress { address: SocketAddr, source: io::Error },

    #[error(
        "{name:?} (--name) is not among the members of --initial-cluster: add it there, or correct the name"
    )]
    NotAMember { name: String },

    #[error("cannot write the audit log (--audit-log): {0}")]
    AuditLog(io::Error),

    #[error("cannot {action} in the data directory {path} (--data-dir): {source}", path = path.display())]
    DataDir { action: &'static str, path: PathBuf, source: io::Error },

    #[error(
        "another process uses the data directory {path} (--data-dir): stop it, or give this one a directory \
         of its own",
        path = path.display()
    )]
    InUse { path: PathBuf },

    #[error(
        "the data directory {path} (--data-dir) belongs to member {:?} ({:x}) of cluster {:x}, and this is \
         member {:?} ({:x}) of cluster {:x}: start it with the --name, --initial-cluster and --cluster-token \
         that it was made with, or give this one a directory of its own",
        found.name, found.member.0, found.cluster.0, expected.name, expected.member.0, expected.cluster.0,
        path = path.display()
    )]
    Stranger { path: PathBuf, found: Box<Identity>, expected: Box<Identity> },

    #[error(
        "the file {file} in the data directory {path} (--data-dir) cannot be read as this member's identity: \
         restore it, or replace this member: move its data directory away and start it empty",
        path = path.display()
    )]
    Illegible { path: PathBuf, file: &'static str },

    #[error(
        "the data directory {path} (--data-dir) was written by a newer version of althing ({found}): start that version",
        path = path.display()
    )]
    NewerIdentity { path: PathBuf, found: String },

    #[error(
        "the data directory {path} (--data-dir) is not empty: a backup is restored into a new one",
        path = path.display()
    )]
    NotEmpty { path: PathBuf },

    #[error("there is no directory {path}", path = path.display())]
    NoDirectory { path: PathBuf },

    #[error("this node, reached at {peer} (--advertise-peer), could not join the cluster: {trouble}{hint}")]
    NotAdmitted { peer: String, trouble: String, hint: &'static str },

    #[error("the cluster does not let this node in: {trouble}")]
    NotLetIn { trouble: String },

    #[error(
        "the data directory {path} (--data-dir) keeps another secret than the one given (--cluster-secret-file or \
         ALTHING_CLUSTER_SECRET): give the one that its cluster has, or none",
        path = path.display()
    )]
    OtherSecret { path: PathBuf },

    #[error(
        "the file {file} in the data directory {path} (--data-dir) cannot be read as the secret of the cluster: copy it from \
         another member, or remove it and give the secret with --cluster-secret-file",
        path = path.display()
    )]
    SecretIllegible { path: PathBuf, file: &'static str },

    #[error("the certificates for peers cannot be used: {0}")]
    PeerTls(#[from] tls::Error),

    #[error(transparent)]
    Engine(#[from] engine::Error),

    #[error("the operating system refuses another thread: {0}")]
    Thread(io::Error),
}
