//! How a new node joins a cluster: it asks any member for the table of members, and finds itself by its peer
//! address. It may ask to be added first; otherwise an operator has added it before it was started.
//! Request and response are bytes on the peer port; a node that gets no answer asks again, for a while.
//! A cluster that has a secret, or auth on, admits nodes that have the secret or present a token.

use crate::audit::{Audit, AuditClass, AuditEntry, AuditOutcome, IdentifiedBy};
use crate::config::{Config, JoinConfig};
use crate::error::Error;
use crate::handle::Handle;
use crate::join_tokens::{PresentedToken, TokenRefusal, TokenUse};
use crate::members::{host_and_port, url};
use crate::peer::{PeerAuth, PeerAuthStage, QuestionSender, question};
use crate::status::Identity;
use base::codec::{Reader, put_bytes};
use base::{ClusterId, Code, NodeId};
use bytes::{BufMut, Bytes};
use coord::Members;
use std::io;
use std::thread;
use std::time::{Duration, Instant};
use tls::{DialTls, Fingerprint, PeerClaim, PinnedAuthority, Secret};

/// The first byte of a join request. Requests of other regions begin with 2.
const FORMAT: u8 = 1;
const WITH_TOKEN: u8 = 3;
const KNOWN: u8 = 1;
const REFUSED: u8 = 2;
const KNOWN_NODE: u8 = 3;
/// As `KNOWN`, and this request has added the node. An older node cannot read it and asks again.
const ADDED: u8 = 4;
/// Precedes one of the others: the secret of the cluster, for a node that has presented a token.
const TRUSTED: u8 = 5;
/// As `REFUSED`, and asking again does not help.
const FORBIDDEN: u8 = 6;
/// With so many voters a cluster has enough of them: a node that joins becomes data-only.
const VOTERS_ENOUGH: usize = 5;
/// For one member to answer, and for all attempts.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(8);
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(300);
/// How often a node that waits to join says so.
const PROGRESS: Duration = Duration::from_secs(5);

/// What a node learns by joining.
pub(crate) struct JoinGrant {
    pub identity: Identity,
    pub members: Members,
    /// A data-only node is no member.
    pub data_only: bool,
    /// Its id was assigned just now, to this process: no vote can have been cast under it.
    pub is_new: bool,
    /// The secret of the cluster, if the node came with a token.
    pub secret: Option<Secret>,
}

/// How a joining node connects to members, and what it presents to them.
pub(crate) struct JoinCredentials {
    guard: PeerAuth,
    /// With the authority that it trusts until it has the secret.
    token: Option<(Option<Fingerprint>, PresentedToken)>,
}

impl JoinCredentials {
    /// A node that has the secret needs no token.
    pub fn new(guard: PeerAuth, join: &JoinConfig) -> Result<JoinCredentials, Error> {
        let token = join.token.as_ref().filter(|_| guard.secret.is_none());
        let token = match token {
            Some(token) => Some((token.authority, token.present().ok_or(tls::Error::NoRandomness)?)),
            None => None,
        };
        Ok(JoinCredentials { guard, token })
    }

    fn is_encrypted(&self) -> bool {
        self.dial("").is_some()
    }

    fn dial(&self, address: &str) -> Option<DialTls> {
        match &self.token {
            Some((Some(authority), _)) if self.guard.stage == PeerAuthStage::Open => {
                Some(PinnedAuthority::dial(*authority))
            }
            _ => self.guard.dial(PeerClaim::Peer, address),
        }
    }
}

/// What a joining node asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum JoinKind {
    /// To learn its id; an operator has added it.
    Known = 0,
    Added = 1,
    /// To become data-only.
    DataOnly = 2,
}

/// Asks until a member knows this node.
pub(crate) fn request_to_join(
    config: &Config,
    join: &JoinConfig,
    credentials: &JoinCredentials,
) -> Result<JoinGrant, Error> {
    let until = Instant::now() + PATIENCE;
    let mut trouble = String::from("no member was asked");
    let kind = match (config.mesh.data_only, join.add) {
        (true, _) => JoinKind::DataOnly,
        (false, true) => JoinKind::Added,
        (false, false) => JoinKind::Known,
    };
    let peer_url = url(&config.advertise_peer, credentials.is_encrypted());
    let question =
        JoinRequest { kind, peer_url, token: credentials.token.as_ref().map(|(_, token)| token.clone()) };
    let question = question.encode();
    let asked = join.ask.join(",");
    tracing::info!(asked, own = config.advertise_peer, "asking members of the cluster to join it");
    let mut told_at = Instant::now();
    while Instant::now() < until {
        if told_at.elapsed() >= PROGRESS {
            let left_s = until.saturating_duration_since(Instant::now()).as_secs();
            tracing::info!(reason = trouble, left_s, "still waiting to join the cluster");
            told_at = Instant::now();
        }
        for address in &join.ask {
            match ask(address, &question, config, credentials) {
                Ok(place) => return Ok(place),
                Err(JoinError::Forbidden(trouble)) => return Err(Error::NotLetIn { trouble }),
                Err(JoinError::Transient(error)) => {
                    let news = format!("{address}: {error}");
                    if news != trouble {
                        tracing::warn!(reason = news, "cannot join the cluster yet; retrying");
                        trouble = news;
                    }
                }
            }
        }
        thread::sleep(PAUSE);
    }
    let hint = if join.add { "" } else { "; `althing member add` makes a place for it, and so does --join" };
    Err(Error::NotAdmitted { peer: config.advertise_peer.clone(), trouble, hint })
}

/// Why a member did not admit this node.
enum JoinError {
    /// Another member may answer differently, or the same one later.
    Transient(String),
    Forbidden(String),
}

impl From<String> for JoinError {
    fn from(why: String) -> JoinError {
        JoinError::Transient(why)
    }
}

fn ask(
    address: &str,
    question: &[u8],
    config: &Config,
    credentials: &JoinCredentials,
) -> Result<JoinGrant, JoinError> {
    let answer = question::ask(address, question, ANSWER_TIMEOUT, || credentials.dial(address));
    let answer = answer.map_err(|error| explain(&error))?;
    let JoinResponse { cluster, node, members, is_new, secret } = decode(answer)?;
    let own = |url: &String| host_and_port(url) == config.advertise_peer;
    let me = members.iter().find(|member| member.peer_urls.iter().any(own)).map(|member| member.id);
    let unknown = || "it does not know this node's peer address".to_owned();
    let me = node.or(me).ok_or_else(unknown)?;
    let identity = Identity { cluster, member: me, name: config.name.clone() };
    Ok(JoinGrant { identity, members, data_only: node.is_some(), is_new, secret })
}

/// What takes connections and does not answer is hardly a member's peer port.
fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::WouldBlock => {
            "it does not answer as a member does; nodes join by peer addresses (peer-addr, 2380 by default)"
                .to_owned()
        }
        io::ErrorKind::TimedOut => "no answer in time".to_owned(),
        _ => error.to_string(),
    }
}

/// A join request, as it is on the wire.
struct JoinRequest {
    kind: JoinKind,
    peer_url: String,
    token: Option<PresentedToken>,
}

impl JoinRequest {
    fn encode(&self) -> Vec<u8> {
        let format = if self.token.is_some() { WITH_TOKEN } else { FORMAT };
        let mut out = vec![format, self.kind as u8];
        put_bytes(&mut out, self.peer_url.as_bytes());
        if let Some(PresentedToken { id, key, nonce }) = &self.token {
            [id, key, nonce].into_iter().for_each(|bytes| put_bytes(&mut out, bytes));
        }
        out
    }

    fn decode(question: Bytes) -> Option<JoinRequest> {
        let mut reader = Reader::new(question);
        let format = reader.u8().filter(|format| [FORMAT, WITH_TOKEN].contains(format))?;
        let kind = match reader.u8()? {
            0 => JoinKind::Known,
            1 => JoinKind::Added,
            2 => JoinKind::DataOnly,
            _ => return None,
        };
        let peer_url = String::from_utf8(reader.bytes()?.into()).ok()?;
        let token = match format {
            WITH_TOKEN => {
                Some(PresentedToken { id: reader.bytes()?, key: reader.bytes()?, nonce: reader.bytes()? })
            }
            _ => None,
        };
        reader.is_empty().then_some(JoinRequest { kind, peer_url, token })
    }
}

struct JoinResponse {
    cluster: ClusterId,
    /// The node's id, if it is data-only.
    node: Option<NodeId>,
    members: Members,
    is_new: bool,
    secret: Option<Secret>,
}

fn decode(answer: Bytes) -> Result<JoinResponse, JoinError> {
    let known = |mut reader: Reader, kind: u8| {
        let cluster = ClusterId(reader.u64()?);
        let node = if kind == KNOWN_NODE { Some(NodeId(reader.u64()?)) } else { None };
        let members = Members::decode(reader.rest())?;
        Some(JoinResponse { cluster, node, members, is_new: kind == ADDED, secret: None })
    };
    let illegible = || "its answer cannot be read".to_owned();
    let mut reader = Reader::new(answer);
    match reader.u8() {
        Some(TRUSTED) => {
            let secret = reader.bytes().ok_or_else(illegible)?;
            let secret = std::str::from_utf8(&secret).ok().and_then(Secret::parse).ok_or_else(illegible)?;
            Ok(JoinResponse { secret: Some(secret), ..decode(reader.rest())? })
        }
        Some(kind @ (KNOWN | KNOWN_NODE | ADDED)) => Ok(known(reader, kind).ok_or_else(illegible)?),
        Some(REFUSED) => Err(JoinError::Transient(String::from_utf8_lossy(&reader.rest()).into_owned())),
        Some(FORBIDDEN) => Err(JoinError::Forbidden(String::from_utf8_lossy(&reader.rest()).into_owned())),
        _ => Err(illegible().into()),
    }
}

/// The member's side. Blocks until the node is added, if it asks for that.
pub(crate) fn answer(handle: &Handle, question: Bytes, sender: &QuestionSender<'_>) -> Bytes {
    let mut out = Vec::new();
    let request = JoinRequest::decode(question);
    let entry = handle.audit().map(|audit| (audit, entry_of(request.as_ref(), sender)));
    let admitted = match request {
        None => Err(JoinRefusal::Illegible),
        Some(request) => admit(handle, request, sender),
    };
    if let Some((audit, entry)) = entry {
        record(audit, entry, &admitted);
    }
    match admitted {
        Ok((admitted, secret)) => {
            if let Some(secret) = secret {
                out.push(TRUSTED);
                put_bytes(&mut out, secret.text().as_bytes());
            }
            let (kind, node) = match admitted {
                JoinOutcome::Known => (KNOWN, None),
                JoinOutcome::Added => (ADDED, None),
                JoinOutcome::DataOnly(node) => (KNOWN_NODE, Some(node)),
            };
            out.push(kind);
            out.put_u64_le(handle.identity().cluster.0);
            node.into_iter().for_each(|node| out.put_u64_le(node.0));
            out.extend(handle.members().table().encode());
        }
        Err(refusal) => {
            let reason = refusal.to_string();
            tracing::warn!(reason, "join refused");
            out.push(if refusal.is_final() { FORBIDDEN } else { REFUSED });
            out.extend_from_slice(reason.as_bytes());
        }
    }
    out.into()
}

fn entry_of(request: Option<&JoinRequest>, sender: &QuestionSender<'_>) -> AuditEntry {
    let class = match request.map(|request| request.kind) {
        Some(JoinKind::Known) => AuditClass::Read,
        _ => AuditClass::Change,
    };
    let mut entry = AuditEntry::new(class, "peer", "join");
    entry.address = sender.address();
    let has_token = request.is_some_and(|request| request.token.is_some());
    entry.identified_by = (sender.proves(PeerClaim::Peer) || has_token).then_some(IdentifiedBy::Cluster);
    if let Some(request) = request {
        entry.add_target("peer_url", &request.peer_url);
    }
    entry
}

/// Records a question of another kind that was refused.
pub(crate) fn record_refused_question(handle: &Handle, operation: &'static str, sender: &QuestionSender<'_>) {
    if let Some(audit) = handle.audit() {
        let mut entry = AuditEntry::new(AuditClass::Read, "peer", operation);
        entry.address = sender.address();
        entry.end(AuditOutcome::Refused, "NotProven");
        audit.record(entry);
    }
}

/// A node that shows a token is given the secret, if it may.
fn record(
    audit: &Audit,
    mut entry: AuditEntry,
    admitted: &Result<(JoinOutcome, Option<Secret>), JoinRefusal>,
) {
    match admitted {
        Ok((admitted, secret)) => {
            if let JoinOutcome::DataOnly(node) = admitted {
                entry.add_target("node", &format!("{:x}", node.0));
            }
            if secret.is_some() || !matches!(admitted, JoinOutcome::Known) {
                entry.class = AuditClass::Change;
            }
            entry.end(AuditOutcome::Ok, "OK");
        }
        Err(JoinRefusal::Code(code)) => entry.end(AuditOutcome::Failed, format!("{code:?}")),
        Err(_) => entry.end(AuditOutcome::Refused, "JoinRefusal"),
    }
    audit.record(entry);
}

/// Why a node is not admitted.
#[derive(Debug, thiserror::Error)]
enum JoinRefusal {
    #[error("the join request cannot be decoded")]
    Illegible,
    #[error(
        "this cluster lets nodes join with a token alone; `althing member add` and `althing ring invite` print one for \
         --join-token"
    )]
    WithoutToken,
    #[error(transparent)]
    Token(#[from] TokenRefusal),
    #[error(transparent)]
    Code(#[from] Code),
}

impl JoinRefusal {
    /// The node has no reason to ask again. A node of an older release does not know this answer and asks until its timeout.
    fn is_final(&self) -> bool {
        matches!(
            self,
            JoinRefusal::WithoutToken
                | JoinRefusal::Token(TokenRefusal::Unknown | TokenRefusal::Used | TokenRefusal::OtherAddress)
        )
    }
}

/// Admits a node that has authenticated, or presents a token, or where no proof is demanded. A node with a token receives
/// the secret, if the answer is encrypted.
fn admit(
    handle: &Handle,
    request: JoinRequest,
    sender: &QuestionSender<'_>,
) -> Result<(JoinOutcome, Option<Secret>), JoinRefusal> {
    let JoinRequest { kind, peer_url, token } = request;
    let secret = handle.core().security.peers.now().secret;
    let mut given = None;
    if !sender.proves(PeerClaim::Peer) {
        match token {
            Some(token) => {
                let used = handle.members().redeem_blocking(&token, &peer_url)?;
                given = secret.filter(|_| sender.is_encrypted());
                if used == TokenUse::ByNewMember {
                    return Ok((JoinOutcome::Added, given));
                }
            }
            None if secret.is_some() => return Err(JoinRefusal::WithoutToken),
            // An administrator has added it before, and it needs no secret.
            None if kind == JoinKind::Known => {}
            None => {
                // A member that is behind may not know yet that auth is on.
                handle.auth().catch_up_blocking()?;
                if handle.auth().is_on() {
                    return Err(JoinRefusal::WithoutToken);
                }
            }
        }
    }
    Ok((find_or_add(handle, kind, peer_url)?, given))
}

enum JoinOutcome {
    Known,
    /// By this request, or by one that this node repeats.
    Added,
    DataOnly(NodeId),
}

fn find_or_add(handle: &Handle, kind: JoinKind, peer_url: String) -> Result<JoinOutcome, Code> {
    let table = handle.members().table();
    if table.is_empty() {
        return Err(Code::NoLeader);
    }
    let is_known = |url: &String| host_and_port(url) == host_and_port(&peer_url);
    if kind == JoinKind::Known || table.iter().any(|member| member.peer_urls.iter().any(is_known)) {
        return Ok(JoinOutcome::Known);
    }
    if kind == JoinKind::DataOnly || table.voters().len() >= VOTERS_ENOUGH {
        return handle.enrol_blocking(host_and_port(&peer_url)).map(JoinOutcome::DataOnly);
    }
    let added: NodeId = handle.members().add_blocking(vec![peer_url])?;
    tracing::info!(peer = added.0, "node joined the cluster");
    Ok(JoinOutcome::Added)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_reads_back_with_a_token_and_without() {
        let bytes = |letter: u8| Bytes::from(vec![letter; 16]);
        let token = PresentedToken { id: bytes(1), key: bytes(2), nonce: bytes(3) };
        for token in [None, Some(token)] {
            let request = JoinRequest { kind: JoinKind::Added, peer_url: "http://a:1".to_owned(), token };
            let encoded = Bytes::from(request.encode());
            let read = JoinRequest::decode(encoded.clone()).unwrap();
            assert_eq!(
                (read.kind, read.peer_url, read.token),
                (request.kind, request.peer_url, request.token)
            );
            assert!((0..encoded.len()).all(|cut| JoinRequest::decode(encoded.slice(..cut)).is_none()));
        }
    }
}
