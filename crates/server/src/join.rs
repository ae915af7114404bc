//! How a new node joins a cluster: it asks any member for the table of members, and finds itself by its peer
//! address. It may ask to be added first; otherwise an operator has added it before it was started.
//! Request and response are bytes on the peer port; a node that gets no answer asks again, for a while.
//! A cluster that has a secret, or auth on, admits nodes that have the secret or present a token.

use crate::audit::{Audit, AuditClass, AuditEntry, AuditOutcome, IdentifiedBy};
use crate::config::{Config, Join};
use crate::error::Error;
use crate::handle::Handle;
use crate::join_tokens::{Presented, Refusal, Use};
use crate::members::{place, url};
use crate::peer::{Asker, Guard, Stage, question};
use crate::status::Identity;
use base::codec::{Reader, put_bytes};
use base::{ClusterId, Code, NodeId};
use bytes::{BufMut, Bytes};
use coord::Members;
use std::thread;
use std::time::{Duration, Instant};
use tls::{Claim, Dial, Fingerprint, Pinned, Secret};

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

/// What a node learns by joining.
pub(crate) struct Place {
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
pub(crate) struct Approach {
    guard: Guard,
    /// With the authority that it trusts until it has the secret.
    token: Option<(Option<Fingerprint>, Presented)>,
}

impl Approach {
    /// A node that has the secret needs no token.
    pub fn new(guard: Guard, join: &Join) -> Result<Approach, Error> {
        let token = join.token.as_ref().filter(|_| guard.secret.is_none());
        let token = match token {
            Some(token) => Some((token.authority, token.present().ok_or(tls::Error::NoRandomness)?)),
            None => None,
        };
        Ok(Approach { guard, token })
    }

    fn is_sealed(&self) -> bool {
        self.dial("").is_some()
    }

    fn dial(&self, address: &str) -> Option<Dial> {
        match &self.token {
            Some((Some(authority), _)) if self.guard.stage == Stage::Open => Some(Pinned::dial(*authority)),
            _ => self.guard.dial(Claim::Peer, address),
        }
    }
}

/// What a joining node asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Wish {
    /// To learn its id; an operator has added it.
    Known = 0,
    Added = 1,
    /// To become data-only.
    DataOnly = 2,
}

/// Asks until a member knows this node.
pub(crate) fn find_place(config: &Config, join: &Join, approach: &Approach) -> Result<Place, Error> {
    let until = Instant::now() + PATIENCE;
    let mut trouble = String::from("no member was asked");
    let wish = match (config.mesh.data_only, join.add) {
        (true, _) => Wish::DataOnly,
        (false, true) => Wish::Added,
        (false, false) => Wish::Known,
    };
    let peer_url = url(&config.advertise_peer, approach.is_sealed());
    let question = Asked { wish, peer_url, token: approach.token.as_ref().map(|(_, token)| token.clone()) };
    let question = question.encode();
    while Instant::now() < until {
        for address in &join.ask {
            match ask(address, &question, config, approach) {
                Ok(place) => return Ok(place),
                Err(Trouble::Forbidden(trouble)) => return Err(Error::NotLetIn { trouble }),
                Err(Trouble::Passing(error)) => {
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
    Err(Error::NotAdmitted { peer: config.advertise_peer.clone(), trouble })
}

/// Why a member did not admit this node.
enum Trouble {
    /// Another member may answer differently, or the same one later.
    Passing(String),
    Forbidden(String),
}

impl From<String> for Trouble {
    fn from(why: String) -> Trouble {
        Trouble::Passing(why)
    }
}

fn ask(address: &str, question: &[u8], config: &Config, approach: &Approach) -> Result<Place, Trouble> {
    let answer = question::ask(address, question, ANSWER_TIMEOUT, || approach.dial(address));
    let answer = answer.map_err(|error| error.to_string())?;
    let Answered { cluster, node, members, is_new, secret } = decode(answer)?;
    let own = |url: &String| place(url) == config.advertise_peer;
    let me = members.iter().find(|member| member.peer_urls.iter().any(own)).map(|member| member.id);
    let unknown = || "it does not know this node's peer address".to_owned();
    let me = node.or(me).ok_or_else(unknown)?;
    let identity = Identity { cluster, member: me, name: config.name.clone() };
    Ok(Place { identity, members, data_only: node.is_some(), is_new, secret })
}

/// A join request, as it is on the wire.
struct Asked {
    wish: Wish,
    peer_url: String,
    token: Option<Presented>,
}

impl Asked {
    fn encode(&self) -> Vec<u8> {
        let format = if self.token.is_some() { WITH_TOKEN } else { FORMAT };
        let mut out = vec![format, self.wish as u8];
        put_bytes(&mut out, self.peer_url.as_bytes());
        if let Some(Presented { id, key, nonce }) = &self.token {
            [id, key, nonce].into_iter().for_each(|bytes| put_bytes(&mut out, bytes));
        }
        out
    }

    fn decode(question: Bytes) -> Option<Asked> {
        let mut reader = Reader::new(question);
        let format = reader.u8().filter(|format| [FORMAT, WITH_TOKEN].contains(format))?;
        let wish = match reader.u8()? {
            0 => Wish::Known,
            1 => Wish::Added,
            2 => Wish::DataOnly,
            _ => return None,
        };
        let peer_url = String::from_utf8(reader.bytes()?.into()).ok()?;
        let token = match format {
            WITH_TOKEN => {
                Some(Presented { id: reader.bytes()?, key: reader.bytes()?, nonce: reader.bytes()? })
            }
            _ => None,
        };
        reader.is_empty().then_some(Asked { wish, peer_url, token })
    }
}

struct Answered {
    cluster: ClusterId,
    /// The node's id, if it is data-only.
    node: Option<NodeId>,
    members: Members,
    is_new: bool,
    secret: Option<Secret>,
}

fn decode(answer: Bytes) -> Result<Answered, Trouble> {
    let known = |mut reader: Reader, kind: u8| {
        let cluster = ClusterId(reader.u64()?);
        let node = if kind == KNOWN_NODE { Some(NodeId(reader.u64()?)) } else { None };
        let members = Members::decode(reader.rest())?;
        Some(Answered { cluster, node, members, is_new: kind == ADDED, secret: None })
    };
    let illegible = || "its answer cannot be read".to_owned();
    let mut reader = Reader::new(answer);
    match reader.u8() {
        Some(TRUSTED) => {
            let secret = reader.bytes().ok_or_else(illegible)?;
            let secret = std::str::from_utf8(&secret).ok().and_then(Secret::parse).ok_or_else(illegible)?;
            Ok(Answered { secret: Some(secret), ..decode(reader.rest())? })
        }
        Some(kind @ (KNOWN | KNOWN_NODE | ADDED)) => Ok(known(reader, kind).ok_or_else(illegible)?),
        Some(REFUSED) => Err(Trouble::Passing(String::from_utf8_lossy(&reader.rest()).into_owned())),
        Some(FORBIDDEN) => Err(Trouble::Forbidden(String::from_utf8_lossy(&reader.rest()).into_owned())),
        _ => Err(illegible().into()),
    }
}

/// The member's side. Blocks until the node is added, if it asks for that.
pub(crate) fn answer(handle: &Handle, question: Bytes, asker: &Asker<'_>) -> Bytes {
    let mut out = Vec::new();
    let asked = Asked::decode(question);
    let entry = handle.audit().map(|audit| (audit, entry_of(asked.as_ref(), asker)));
    let admitted = match asked {
        None => Err(NotLetIn::Illegible),
        Some(asked) => admit(handle, asked, asker),
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
                Admitted::Known => (KNOWN, None),
                Admitted::Added => (ADDED, None),
                Admitted::DataOnly(node) => (KNOWN_NODE, Some(node)),
            };
            out.push(kind);
            out.put_u64_le(handle.identity().cluster.0);
            node.into_iter().for_each(|node| out.put_u64_le(node.0));
            out.extend(handle.member_table().encode());
        }
        Err(why) => {
            let reason = why.to_string();
            tracing::warn!(reason, "join refused");
            out.push(if why.is_final() { FORBIDDEN } else { REFUSED });
            out.extend_from_slice(reason.as_bytes());
        }
    }
    out.into()
}

fn entry_of(asked: Option<&Asked>, asker: &Asker<'_>) -> AuditEntry {
    let class = match asked.map(|asked| asked.wish) {
        Some(Wish::Known) => AuditClass::Read,
        _ => AuditClass::Change,
    };
    let mut entry = AuditEntry::new(class, "peer", "join");
    entry.address = asker.address();
    let has_token = asked.is_some_and(|asked| asked.token.is_some());
    entry.identified_by = (asker.proves(Claim::Peer) || has_token).then_some(IdentifiedBy::Cluster);
    if let Some(asked) = asked {
        entry.add_target("peer_url", &asked.peer_url);
    }
    entry
}

/// A node that shows a token is given the secret, if it may.
fn record(audit: &Audit, mut entry: AuditEntry, admitted: &Result<(Admitted, Option<Secret>), NotLetIn>) {
    match admitted {
        Ok((admitted, secret)) => {
            if let Admitted::DataOnly(node) = admitted {
                entry.add_target("node", &format!("{:x}", node.0));
            }
            if secret.is_some() || !matches!(admitted, Admitted::Known) {
                entry.class = AuditClass::Change;
            }
            entry.end(AuditOutcome::Ok, "OK");
        }
        Err(NotLetIn::Code(code)) => entry.end(AuditOutcome::Failed, format!("{code:?}")),
        Err(_) => entry.end(AuditOutcome::Refused, "NotLetIn"),
    }
    audit.record(entry);
}

/// Why a node is not admitted.
#[derive(Debug, thiserror::Error)]
enum NotLetIn {
    #[error("the join request cannot be decoded")]
    Illegible,
    #[error(
        "this cluster lets nodes join with a token alone; `althing member add` and `althing ring invite` print one for \
         --join-token"
    )]
    WithoutToken,
    #[error(transparent)]
    Token(#[from] Refusal),
    #[error(transparent)]
    Code(#[from] Code),
}

impl NotLetIn {
    /// The node has no reason to ask again. A node of an older release does not know this answer and asks until its timeout.
    fn is_final(&self) -> bool {
        matches!(
            self,
            NotLetIn::WithoutToken
                | NotLetIn::Token(Refusal::Unknown | Refusal::Used | Refusal::OtherAddress)
        )
    }
}

/// Admits a node that has authenticated, or presents a token, or where no proof is demanded. A node with a token receives
/// the secret, if the answer is encrypted.
fn admit(handle: &Handle, asked: Asked, asker: &Asker<'_>) -> Result<(Admitted, Option<Secret>), NotLetIn> {
    let Asked { wish, peer_url, token } = asked;
    let secret = handle.core().security.now().secret;
    let mut given = None;
    if !asker.proves(Claim::Peer) {
        match token {
            Some(token) => {
                let used = handle.redeem_blocking(&token, &peer_url)?;
                given = secret.filter(|_| asker.is_sealed());
                if used == Use::ByNewMember {
                    return Ok((Admitted::Added, given));
                }
            }
            None if secret.is_some() => return Err(NotLetIn::WithoutToken),
            // An administrator has added it before, and it needs no secret.
            None if wish == Wish::Known => {}
            None => {
                // A member that is behind may not know yet that auth is on.
                handle.catch_up_blocking()?;
                if handle.is_auth_on() {
                    return Err(NotLetIn::WithoutToken);
                }
            }
        }
    }
    Ok((find_or_add(handle, wish, peer_url)?, given))
}

enum Admitted {
    Known,
    /// By this request, or by one that this node repeats.
    Added,
    DataOnly(NodeId),
}

fn find_or_add(handle: &Handle, wish: Wish, peer_url: String) -> Result<Admitted, Code> {
    let table = handle.member_table();
    if table.is_empty() {
        return Err(Code::NoLeader);
    }
    let is_known = |url: &String| place(url) == place(&peer_url);
    if wish == Wish::Known || table.iter().any(|member| member.peer_urls.iter().any(is_known)) {
        return Ok(Admitted::Known);
    }
    if wish == Wish::DataOnly || table.voters().len() >= VOTERS_ENOUGH {
        return handle.enrol_blocking(place(&peer_url)).map(Admitted::DataOnly);
    }
    let added: NodeId = handle.add_member_blocking(vec![peer_url])?;
    tracing::info!(peer = added.0, "node joined the cluster");
    Ok(Admitted::Added)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_reads_back_with_a_token_and_without() {
        let bytes = |letter: u8| Bytes::from(vec![letter; 16]);
        let token = Presented { id: bytes(1), key: bytes(2), nonce: bytes(3) };
        for token in [None, Some(token)] {
            let asked = Asked { wish: Wish::Added, peer_url: "http://a:1".to_owned(), token };
            let encoded = Bytes::from(asked.encode());
            let read = Asked::decode(encoded.clone()).unwrap();
            assert_eq!((read.wish, read.peer_url, read.token), (asked.wish, asked.peer_url, asked.token));
            assert!((0..encoded.len()).all(|cut| Asked::decode(encoded.slice(..cut)).is_none()));
        }
    }
}
