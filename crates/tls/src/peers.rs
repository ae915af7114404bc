//! TLS between nodes: each side presents a certificate. The proofs of members and regions go in; configurations for
//! accepting and for dialling come out, and whether the certificates of a connection prove a claim. A certificate is
//! trusted if an authority of the peers has signed it for both ends of a connection: client certificates, usually
//! valid for one end only, are refused here. The authority of a region's secret is trusted for that region alone.

use crate::extended_verifier::{ClientCertRule, ExtendedVerifier};
use crate::files::{self, ServerFiles};
use crate::pinned::TrustAnyServer;
use crate::reload::{CHECK_EVERY, Reloading};
use crate::secret::{Authority, Fingerprint, Secret};
use crate::self_signed::SelfSigned;
use crate::{Error, certificate, provider};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::client::{VerifierBuilderError, verify_server_name};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SignatureScheme};
use std::path::PathBuf;
use std::sync::Arc;

/// Connections with another protocol are refused.
pub(crate) const PROTOCOL: &[u8] = b"althing-peer";
/// What the authority of a cluster's secret is for, and the name that all its certificates bear.
const MEMBERS: &str = "peers";
pub(crate) const MEMBER_NAME: &str = "peer.althing";
/// The same for the secret of two regions.
const REGIONS: &str = "regions";
const REGION_NAME: &str = "region.althing";

/// As `Files`, but there is always an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
    pub ca: PathBuf,
    pub crl: Option<PathBuf>,
    /// Where there are some, a peer's certificate must have one of these common names.
    pub allowed_names: Vec<String>,
    /// Where there are some, a peer's certificate must be good for one of these hosts.
    pub allowed_hosts: Vec<String>,
}

impl PeerFiles {
    fn allows(&self, certificates: &[CertificateDer<'_>]) -> bool {
        let name = || certificates.first().and_then(|first| certificate::common_name(first));
        let is_named =
            self.allowed_names.is_empty() || name().is_some_and(|name| self.allowed_names.contains(&name));
        let is_for = |host: &String| speaks_for(certificates, ServerName::try_from(host.as_str()).ok());
        is_named && (self.allowed_hosts.is_empty() || self.allowed_hosts.iter().any(is_for))
    }
}

/// How members prove themselves to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberProof {
    /// Not at all.
    Open,
    /// By certificates that an operator has made; each names the address of its member.
    Files(PeerFiles),
    /// By certificates that each derives from the secret of the cluster; each names the id of its member.
    Secret(Secret),
    /// Not at all, but what they say is encrypted: with certificates that are kept in this directory and verified by no
    /// peer, as etcd's `--peer-auto-tls`.
    SelfSigned(SelfSigned),
}

/// What the other side of a connection may claim to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerClaim<'a> {
    /// A node that may belong to this cluster, whichever it is.
    Peer,
    Member {
        id: u64,
        address: &'a str,
    },
    /// One at this address, or any of that region.
    Region {
        name: &'a str,
        address: Option<&'a str>,
    },
}

/// The TLS configuration of an outgoing connection; without a name no certificate can be verified.
pub struct DialTls {
    pub config: Arc<ClientConfig>,
    pub name: Option<ServerName<'static>>,
}

pub struct PeerTls {
    source: Source,
    proof: MemberProof,
    regions: Vec<Region>,
}

enum Source {
    Files(Reloading<PeerConfigs>),
    Fixed(Arc<PeerConfigs>),
}

struct PeerConfigs {
    accept: Arc<ServerConfig>,
    /// To members; none if they use no TLS.
    dial: Option<Arc<ClientConfig>>,
    /// The roots of members; none where they prove nothing.
    roots: Option<Arc<RootCertStore>>,
    expiry: Option<u64>,
}

/// What a pair of regions shares.
struct Region {
    name: String,
    shown_as: String,
    roots: Arc<RootCertStore>,
    dial: Arc<ClientConfig>,
    certified: Arc<CertifiedKey>,
}

impl PeerTls {
    /// As a member with certificates of an operator, and without other regions.
    pub fn open(files: PeerFiles) -> Result<PeerTls, Error> {
        PeerTls::new(MemberProof::Files(files), Some(0), &[])
    }

    /// For the node with this id, once it has one; each region by its name and the secret that it shares with this one.
    pub fn new(proof: MemberProof, me: Option<u64>, regions: &[(String, Secret)]) -> Result<PeerTls, Error> {
        let made = |(name, secret): &(String, Secret)| Region::new(name, secret);
        let regions = regions.iter().map(made).collect::<Result<Vec<_>, _>>()?;
        let source = match proof.clone() {
            MemberProof::Files(peer_files) => {
                let PeerFiles { cert, key, ca, crl, .. } = peer_files.clone();
                let paths = ServerFiles { cert, key, ca: Some(ca), crl }.paths();
                let extra = RegionTrust::of(&regions);
                let make = Box::new(move || from_files(&peer_files, &extra));
                Source::Files(Reloading::new(paths, CHECK_EVERY, make)?)
            }
            MemberProof::Secret(secret) => Source::Fixed(Arc::new(from_secret(&secret, me, &regions)?)),
            MemberProof::SelfSigned(made) => Source::Fixed(Arc::new(self_signed(&made, &regions)?)),
            MemberProof::Open => Source::Fixed(Arc::new(for_regions(&regions)?)),
        };
        Ok(PeerTls { source, proof, regions })
    }

    /// The authority of the members' secret.
    pub fn authority_of(secret: &Secret) -> Fingerprint {
        Authority::derive(secret, MEMBERS).fingerprint()
    }

    fn made(&self) -> Arc<PeerConfigs> {
        match &self.source {
            Source::Files(reloading) => reloading.get(),
            Source::Fixed(made) => made.clone(),
        }
    }

    /// For the next connection that is accepted.
    pub fn accept(&self) -> Arc<ServerConfig> {
        self.made().accept.clone()
    }

    /// For a connection to the other side that is what it claims; none if that peer uses no TLS. Of a peer that is
    /// none of these, the address alone is known.
    pub fn dial(&self, claim: PeerClaim<'_>, address: &str) -> Option<DialTls> {
        if let PeerClaim::Region { name, .. } = claim
            && let Some(region) = self.region(name)
        {
            let name = ServerName::try_from(region.shown_as.clone()).ok();
            return Some(DialTls { config: region.dial.clone(), name });
        }
        let is_region = matches!(claim, PeerClaim::Region { .. });
        if is_region && !matches!(self.proof, MemberProof::Files(_)) {
            return None;
        }
        let name = match (&self.proof, claim) {
            (MemberProof::Secret(_), PeerClaim::Member { id, .. }) => {
                ServerName::try_from(name_of_member(id)).ok()
            }
            (MemberProof::Secret(_), _) => ServerName::try_from(MEMBER_NAME).ok(),
            _ => name_of(address),
        };
        Some(DialTls { config: self.made().dial.clone()?, name })
    }

    /// When the certificate of an operator that is shown ends, in seconds since 1970.
    pub fn expiry(&self) -> Option<u64> {
        self.made().expiry
    }

    /// Whether such a claim must be proven.
    pub fn demands(&self, claim: PeerClaim<'_>) -> bool {
        match (claim, &self.proof) {
            (_, MemberProof::Files(_)) => true,
            (PeerClaim::Region { name, .. }, _) => self.region(name).is_some(),
            (_, proof) => matches!(proof, MemberProof::Secret(_)),
        }
    }

    /// Whether connections in the clear are ended before anything is read.
    pub fn requires_tls(&self) -> bool {
        matches!(self.proof, MemberProof::Files(_) | MemberProof::SelfSigned(_))
    }

    /// Whether the certificates that the other side has shown prove what it claims.
    pub fn proves(&self, certificates: &[CertificateDer<'_>], claim: PeerClaim<'_>) -> bool {
        match claim {
            PeerClaim::Region { name, address } => match self.region(name) {
                Some(region) => is_trusted(certificates, &region.roots),
                None => {
                    let speaks = |address| speaks_for(certificates, name_of(address));
                    self.is_member(certificates) && address.is_none_or(speaks)
                }
            },
            PeerClaim::Peer => self.is_member(certificates),
            PeerClaim::Member { id, address } => {
                let name = match &self.proof {
                    MemberProof::Secret(_) => ServerName::try_from(name_of_member(id)).ok(),
                    _ => name_of(address),
                };
                self.is_member(certificates) && speaks_for(certificates, name)
            }
        }
    }

    fn is_member(&self, certificates: &[CertificateDer<'_>]) -> bool {
        if matches!(&self.proof, MemberProof::Files(files) if !files.allows(certificates)) {
            return false;
        }
        self.made().roots.as_ref().is_some_and(|roots| is_trusted(certificates, roots))
    }

    fn region(&self, name: &str) -> Option<&Region> {
        self.regions.iter().find(|region| region.name == name)
    }
}

impl std::fmt::Debug for PeerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Peers")
    }
}

/// The first certificate is of an authority in the store, and good for both ends of a connection.
fn is_trusted(certificates: &[CertificateDer<'_>], roots: &RootCertStore) -> bool {
    let Some((first, rest)) = certificates.split_first() else { return false };
    let algorithms = provider().signature_verification_algorithms.all;
    let now = UnixTime::now();
    ParsedCertificate::try_from(first).is_ok_and(|certificate| {
        verify_server_cert_signed_by_trust_anchor(&certificate, roots, rest, now, algorithms).is_ok()
    })
}

fn speaks_for(certificates: &[CertificateDer<'_>], name: Option<ServerName<'_>>) -> bool {
    let (Some(certificate), Some(name)) = (certificates.first(), name) else { return false };
    ParsedCertificate::try_from(certificate)
        .is_ok_and(|certificate| verify_server_name(&certificate, &name).is_ok())
}

/// The host of `host:port`, as certificates name it.
pub(crate) fn name_of(address: &str) -> Option<ServerName<'static>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(host.to_owned()).ok()
}

fn name_of_member(id: u64) -> String {
    format!("{id:016x}.{MEMBER_NAME}")
}

impl Region {
    fn new(name: &str, secret: &Secret) -> Result<Region, Error> {
        let authority = Authority::derive(secret, REGIONS);
        let shown_as = format!("{}.{REGION_NAME}", authority.fingerprint().short());
        let issued = authority.issue(std::slice::from_ref(&shown_as))?;
        let roots = Arc::new(authority.roots()?);
        let dial = dial(&roots, vec![], &issued.certified()?).map_err(build_error)?;
        Ok(Region { name: name.to_owned(), shown_as, roots, dial, certified: issued.certified()? })
    }
}

/// The certificates and authorities of regions, besides those of members.
#[derive(Clone, Default)]
struct RegionTrust {
    roots: Vec<Arc<RootCertStore>>,
    certified: Vec<(String, Arc<CertifiedKey>)>,
}

impl RegionTrust {
    fn of(regions: &[Region]) -> RegionTrust {
        let certified = |region: &Region| (region.shown_as.clone(), region.certified.clone());
        RegionTrust {
            roots: regions.iter().map(|region| region.roots.clone()).collect(),
            certified: regions.iter().map(certified).collect(),
        }
    }
}

fn build_error(reason: impl std::fmt::Display) -> Error {
    Error::Made { reason: reason.to_string() }
}

fn from_files(peer_files: &PeerFiles, extra: &RegionTrust) -> Result<PeerConfigs, Error> {
    let chain = files::chain(&peer_files.cert)?;
    let expiry = certificate::expiry(&chain[0]);
    let roots = Arc::new(files::roots(&peer_files.ca)?);
    let crls = peer_files.crl.as_deref().map(files::revoked).transpose()?.unwrap_or_default();
    let misfit = |reason: rustls::Error| files::unusable(&peer_files.cert, reason);
    let unbuilt = |reason: VerifierBuilderError| files::unusable(&peer_files.ca, reason);
    let certified =
        CertifiedKey::from_der(chain, files::key(&peer_files.key)?, &provider()).map_err(misfit)?;
    let certified = Arc::new(certified);
    let believed = TrustedRoots { members: Some(&roots), crls: crls.clone(), cert_required: true };
    let accept = accept(Some(certified.clone()), believed, extra).map_err(unbuilt)?;
    let dial = dial(&roots, crls, &certified).map_err(unbuilt)?;
    Ok(PeerConfigs { accept, dial: Some(dial), roots: Some(roots), expiry })
}

fn from_secret(secret: &Secret, me: Option<u64>, regions: &[Region]) -> Result<PeerConfigs, Error> {
    let authority = Authority::derive(secret, MEMBERS);
    let names: Vec<String> = me.map(name_of_member).into_iter().chain([MEMBER_NAME.to_owned()]).collect();
    let certified = authority.issue(&names)?.certified()?;
    let roots = Arc::new(authority.roots()?);
    // A node that has a token and no secret yet may ask to join, and has no certificate.
    let believed = TrustedRoots { members: Some(&roots), crls: vec![], cert_required: false };
    let accept = accept(Some(certified.clone()), believed, &RegionTrust::of(regions)).map_err(build_error)?;
    let dial = dial(&roots, vec![], &certified).map_err(build_error)?;
    Ok(PeerConfigs { accept, dial: Some(dial), roots: Some(roots), expiry: None })
}

fn self_signed(made: &SelfSigned, regions: &[Region]) -> Result<PeerConfigs, Error> {
    let certified = made.certified()?;
    let expiry = certified.cert.first().and_then(|certificate| certificate::expiry(certificate));
    let believed = TrustedRoots { members: None, crls: vec![], cert_required: false };
    let accept = accept(Some(certified), believed, &RegionTrust::of(regions)).map_err(build_error)?;
    Ok(PeerConfigs { accept, dial: Some(TrustAnyServer::config()), roots: None, expiry })
}

fn for_regions(regions: &[Region]) -> Result<PeerConfigs, Error> {
    let believed = TrustedRoots { members: None, crls: vec![], cert_required: true };
    let accept = accept(None, believed, &RegionTrust::of(regions)).map_err(build_error)?;
    Ok(PeerConfigs { accept, dial: None, roots: None, expiry: None })
}

/// The authorities that a port trusts.
struct TrustedRoots<'a> {
    members: Option<&'a RootCertStore>,
    crls: Vec<CertificateRevocationListDer<'static>>,
    /// The handshake fails without a certificate.
    cert_required: bool,
}

fn accept(
    shown: Option<Arc<CertifiedKey>>,
    believed: TrustedRoots<'_>,
    extra: &RegionTrust,
) -> Result<Arc<ServerConfig>, VerifierBuilderError> {
    let stores = believed.members.into_iter().chain(extra.roots.iter().map(|roots| &**roots));
    let roots: Vec<_> = stores.flat_map(|store| store.roots.clone()).collect();
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has algorithms for it");
    let builder = if roots.is_empty() {
        builder.with_no_client_auth()
    } else {
        let roots = Arc::new(RootCertStore { roots });
        let mut inner = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider());
        if !believed.crls.is_empty() {
            inner = inner.with_crls(believed.crls).allow_unknown_revocation_status();
        }
        let verifier = ExtendedVerifier {
            inner: inner.build()?,
            rule: BothEndsRule { roots },
            cert_required: believed.cert_required,
        };
        builder.with_client_cert_verifier(Arc::new(verifier))
    };
    let resolver = CertByName { usual: shown, regions: extra.certified.clone() };
    let mut config = builder.with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn dial(
    roots: &Arc<RootCertStore>,
    crls: Vec<CertificateRevocationListDer<'static>>,
    shown: &Arc<CertifiedKey>,
) -> Result<Arc<ClientConfig>, VerifierBuilderError> {
    let mut verifier = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider());
    if !crls.is_empty() {
        verifier = verifier.with_crls(crls).allow_unknown_revocation_status();
    }
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has algorithms for it")
        .with_webpki_verifier(verifier.build()?)
        .with_client_cert_resolver(Arc::new(SingleCert(shown.clone())));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Presents the certificate that the client has asked for by name (SNI): that of a region, or of members.
#[derive(Debug)]
struct CertByName {
    usual: Option<Arc<CertifiedKey>>,
    regions: Vec<(String, Arc<CertifiedKey>)>,
}

impl ResolvesServerCert for CertByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello.server_name();
        let region = self.regions.iter().find(|(name, _)| Some(name.as_str()) == asked);
        region.map(|(_, certified)| certified.clone()).or_else(|| self.usual.clone())
    }
}

/// Presents the only certificate.
#[derive(Debug)]
struct SingleCert(Arc<CertifiedKey>);

impl rustls::client::ResolvesClientCert for SingleCert {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.key.choose_scheme(schemes).map(|_| self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Accepts a client certificate only if it is valid as a server certificate as well.
#[derive(Debug)]
struct BothEndsRule {
    roots: Arc<RootCertStore>,
}

impl ClientCertRule for BothEndsRule {
    fn verify(
        &self,
        inner: &dyn ClientCertVerifier,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = provider().signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, intermediates, now, algorithms)?;
        inner.verify_client_cert(end_entity, intermediates, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_named_without_its_port() {
        let name = |address| name_of(address).map(|name| name.to_str().into_owned());
        assert_eq!(name("db1.example.com:2380").as_deref(), Some("db1.example.com"));
        assert_eq!(name("10.0.0.1:2380").as_deref(), Some("10.0.0.1"));
        assert_eq!(name("[::1]:2380").as_deref(), Some("::1"));
        assert_eq!(name("a b:1"), None);
    }
}
