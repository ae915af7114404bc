//! Join tokens: what admits a node to a cluster that demands proof. A token admits one node, once, until it expires.
//! The cluster stores the hash of each in a document, so that every member knows it and a used one is used everywhere; the
//! token itself is printed when it is made and stored nowhere. It names the authority of the cluster, by which the joining
//! node authenticates the cluster before it sends anything.

use crate::documents::DocumentChange;
use crate::handle::MemberHandle;
use crate::members::host_and_port;
use crate::mutant::Mutant;
use base::Code;
use base::codec::{Reader, put_varint};
use base::mutant::planted;
use bytes::{BufMut, Bytes};
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tls::{Fingerprint, PeerTls};

/// The document that stores them.
pub(crate) const DOCUMENT: &str = "cluster/join-tokens";
const FORMAT: u8 = 1;
const PREFIX: &str = "althing-join-";
const ID_BYTES: usize = 16;
const KEY_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
/// How many unused tokens there may be.
const TOKENS_MAX: usize = 256;

/// As an operator carries it to the node that joins.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    id: [u8; ID_BYTES],
    key: [u8; KEY_BYTES],
    /// The fingerprint of the cluster's authority; none if its peers are open.
    pub authority: Option<Fingerprint>,
}

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.authority.iter().flat_map(|authority| authority.0);
        f.write_str(PREFIX)?;
        self.id.into_iter().chain(self.key).chain(authority).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Never shows the token.
impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinToken")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a join token, as `althing member add` and `althing ring invite` print them")]
pub struct InvalidJoinToken;

impl FromStr for JoinToken {
    type Err = InvalidJoinToken;

    fn from_str(text: &str) -> Result<JoinToken, InvalidJoinToken> {
        let digits = text.trim().strip_prefix(PREFIX).ok_or(InvalidJoinToken)?.as_bytes();
        let digit = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let (pairs, odd) = digits.as_chunks::<2>();
        let bytes: Option<Vec<u8>> = pairs.iter().map(|pair| digit(pair)).collect();
        let bytes = bytes.filter(|_| odd.is_empty()).ok_or(InvalidJoinToken)?;
        let (id, rest) = bytes.split_first_chunk().ok_or(InvalidJoinToken)?;
        let (key, authority) = rest.split_first_chunk().ok_or(InvalidJoinToken)?;
        let authority = match authority {
            [] => None,
            bytes => Some(Fingerprint(bytes.try_into().map_err(|_| InvalidJoinToken)?)),
        };
        Ok(JoinToken { id: *id, key: *key, authority })
    }
}

/// What a joining node presents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PresentedToken {
    pub id: Bytes,
    pub key: Bytes,
    /// Drawn by the node for this start: only the same start may repeat the request.
    pub nonce: Bytes,
}

impl JoinToken {
    /// `None` if the system gives no random numbers.
    pub(crate) fn present(&self) -> Option<PresentedToken> {
        let copy = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
        let nonce = tls::random::<KEY_BYTES>()?;
        Some(PresentedToken { id: copy(&self.id), key: copy(&self.key), nonce: copy(&nonce) })
    }
}

/// Why a token does not admit a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenRefusal {
    #[error(
        "the cluster does not know the join token, or it has expired; `althing ring invite` makes another"
    )]
    Unknown,
    #[error("the join token is for a node at another address (compare --advertise-peer)")]
    OtherAddress,
    #[error("the join token was used by another node; `althing ring invite` makes another")]
    Used,
    #[error(transparent)]
    Code(#[from] Code),
}

/// The nodes that know that a token is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenUse {
    /// All members.
    Agreed,
    /// Only this member, which waits for the joining node; no node has started under its id before.
    ByNewMember,
}

/// A token as the cluster stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StoredToken {
    id: Bytes,
    hash: Bytes,
    expires_ms: u64,
    /// The node that has used it, as a hash of its nonce and its address; empty until then.
    used_by: Bytes,
    /// The hash of the one address that may use it; empty for any.
    bound_to: Bytes,
}

/// What redeeming a valid token means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Redemption {
    Before,
    /// To be recorded. It may be bound to the address of the node.
    Now {
        is_bound: bool,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JoinTokens(Vec<StoredToken>);

impl JoinTokens {
    pub(crate) fn decode(bytes: Bytes) -> Option<JoinTokens> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != FORMAT {
            return None;
        }
        let count = reader.count().filter(|count| *count <= TOKENS_MAX)?;
        let kept = |reader: &mut Reader| {
            let (id, hash) = (reader.take(ID_BYTES)?, reader.take(HASH_BYTES)?);
            let expires_ms = reader.u64()?;
            let mut option = || if reader.bool()? { reader.take(HASH_BYTES) } else { Some(Bytes::new()) };
            let (used_by, bound_to) = (option()?, option()?);
            Some(StoredToken { id, hash, expires_ms, used_by, bound_to })
        };
        let all = (0..count).map(|_| kept(&mut reader)).collect::<Option<_>>()?;
        reader.is_empty().then_some(JoinTokens(all))
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        put_varint(&mut out, self.0.len() as u64);
        for kept in &self.0 {
            out.extend_from_slice(&kept.id);
            out.extend_from_slice(&kept.hash);
            out.put_u64_le(kept.expires_ms);
            for option in [&kept.used_by, &kept.bound_to] {
                out.push(u8::from(!option.is_empty()));
                out.extend_from_slice(option);
            }
        }
        out.into()
    }

    /// For a node at any address if the URL is empty.
    fn add(&mut self, token: &JoinToken, peer_url: &str, now_ms: u64, ttl: Duration) -> Result<(), Code> {
        self.0.retain(|kept| kept.expires_ms > now_ms);
        if self.0.len() >= TOKENS_MAX {
            return Err(Code::TooManyRequests);
        }
        self.0.push(StoredToken {
            id: Bytes::copy_from_slice(&token.id),
            hash: Bytes::copy_from_slice(&tls::hash(&[&token.key])),
            expires_ms: now_ms.saturating_add(ttl.as_millis() as u64),
            used_by: Bytes::new(),
            bound_to: if peer_url.is_empty() { Bytes::new() } else { hash_of_address(peer_url) },
        });
        Ok(())
    }

    fn redeem(
        &mut self,
        presented: &PresentedToken,
        peer_url: &str,
        now_ms: u64,
    ) -> Result<Redemption, TokenRefusal> {
        self.0.retain(|kept| kept.expires_ms > now_ms);
        let hash = tls::hash(&[&presented.key]);
        let is_it = |kept: &&mut StoredToken| kept.id == presented.id && kept.hash == hash[..];
        let kept = self.0.iter_mut().find(is_it).ok_or(TokenRefusal::Unknown)?;
        let node = tls::hash(&[&presented.nonce, peer_url.as_bytes()]);
        if kept.used_by == node[..] {
            return Ok(Redemption::Before);
        }
        if !kept.used_by.is_empty() && !planted(Mutant::JoinTokenServesTwice) {
            return Err(TokenRefusal::Used);
        }
        let is_bound = !kept.bound_to.is_empty();
        if is_bound && kept.bound_to != hash_of_address(peer_url) {
            return Err(TokenRefusal::OtherAddress);
        }
        kept.used_by = Bytes::copy_from_slice(&node);
        Ok(Redemption::Now { is_bound })
    }
}

impl MemberHandle<'_> {
    /// Makes a token that admits one node within this time; only the one at this URL, if there is one.
    pub async fn make_join_token(self, ttl: Duration, peer_url: &str) -> Result<JoinToken, Code> {
        let secret = self.handle.core().security.peers.now().secret;
        let made = || {
            let authority = secret.as_ref().map(PeerTls::authority_of);
            Some(JoinToken { id: tls::random()?, key: tls::random()?, authority })
        };
        let token = made().ok_or(Code::TooManyRequests)?;
        let add = |tokens: &mut JoinTokens| tokens.add(&token, peer_url, now_ms(), ttl);
        self.handle.documents().update(add).await?;
        Ok(token)
    }

    /// Redeems a token for the node at this address, or finds that the same start has redeemed it. For a thread of the peer
    /// port.
    pub(crate) fn redeem_blocking(
        self,
        presented: &PresentedToken,
        peer_url: &str,
    ) -> Result<TokenUse, TokenRefusal> {
        self.handle.documents().update_blocking(|tokens: &mut JoinTokens| {
            match tokens.redeem(presented, peer_url, now_ms())? {
                Redemption::Before => return Ok(DocumentChange::None(TokenUse::Agreed)),
                Redemption::Now { is_bound: true } => {
                    self.check_first_use(presented, peer_url)?;
                    if self.handle.status().leader.is_none() && self.is_awaited(peer_url) {
                        return self.redeem_here(presented, peer_url).map(DocumentChange::None);
                    }
                }
                Redemption::Now { .. } => {}
            }
            Ok(DocumentChange::Write(TokenUse::Agreed))
        })
    }

    /// A single member to which a second was added has no quorum before the second starts, so it cannot commit.
    /// No other member can be asked, and this one records locally which start of which node has used the token.
    fn redeem_here(self, presented: &PresentedToken, peer_url: &str) -> Result<TokenUse, TokenRefusal> {
        if self.table().voters().len() != 2 {
            return Err(Code::NoLeader.into());
        }
        let node = node_of(presented, peer_url);
        let used_by = self
            .handle
            .core()
            .security
            .secret_store
            .record_use(&hex(&presented.id), &node)
            .map_err(unwritten)?;
        if used_by == node { Ok(TokenUse::ByNewMember) } else { Err(TokenRefusal::Used) }
    }

    /// The local record stays valid when the cluster can commit again; and a token that was made for a member
    /// ends when that member has started.
    fn check_first_use(self, presented: &PresentedToken, peer_url: &str) -> Result<(), TokenRefusal> {
        let noted =
            self.handle.core().security.secret_store.recorded_use(&hex(&presented.id)).map_err(unwritten)?;
        match noted {
            Some(node) if node == node_of(presented, peer_url) => Ok(()),
            Some(_) => Err(TokenRefusal::Used),
            None if self.has_started(peer_url) => Err(TokenRefusal::Used),
            None => Ok(()),
        }
    }

    fn has_started(self, peer_url: &str) -> bool {
        let table = self.table();
        let is_there = |url: &String| host_and_port(url) == host_and_port(peer_url);
        table.iter().any(|member| !member.name.is_empty() && member.peer_urls.iter().any(is_there))
    }

    /// A member was added at this address and has not published its name yet.
    fn is_awaited(self, peer_url: &str) -> bool {
        let table = self.table();
        let is_there = |url: &String| host_and_port(url) == host_and_port(peer_url);
        table.iter().any(|member| member.name.is_empty() && member.peer_urls.iter().any(is_there))
    }
}

/// A start of a node, as a used token names it.
fn node_of(presented: &PresentedToken, peer_url: &str) -> String {
    hex(&tls::hash(&[&presented.nonce, peer_url.as_bytes()]))
}

fn unwritten(error: std::io::Error) -> TokenRefusal {
    tracing::error!(%error, "cannot access the record of used join tokens");
    TokenRefusal::Code(Code::NoSpace)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// However it is written, `http` or `https`.
fn hash_of_address(peer_url: &str) -> Bytes {
    Bytes::copy_from_slice(&tls::hash(&[host_and_port(peer_url).as_bytes()]))
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn token(authority: Option<Fingerprint>) -> JoinToken {
        JoinToken { id: [1; ID_BYTES], key: [2; KEY_BYTES], authority }
    }

    #[test]
    fn a_token_reads_back_and_others_are_none() {
        for authority in [None, Some(Fingerprint([3; 32]))] {
            let token = token(authority);
            let text = token.to_string();
            assert_eq!(text.parse(), Ok(token));
            for cut in 0..text.len() {
                let whole_without_authority = cut == PREFIX.len() + 2 * (ID_BYTES + KEY_BYTES);
                assert_eq!(text[..cut].parse::<JoinToken>().is_ok(), whole_without_authority, "{cut}");
            }
        }
        assert_eq!("".parse::<JoinToken>(), Err(InvalidJoinToken));
        assert_eq!(format!("{PREFIX}{}", "é".repeat(32)).parse::<JoinToken>(), Err(InvalidJoinToken));
    }

    #[test]
    fn a_token_serves_one_node_until_it_expires() {
        let mut tokens = JoinTokens::default();
        tokens.add(&token(None), "", 1_000, HOUR).unwrap();
        let (one, other) = (token(None).present().unwrap(), token(None).present().unwrap());
        assert_eq!(tokens.redeem(&one, "http://a:1", 1_000), Ok(Redemption::Now { is_bound: false }));
        assert_eq!(tokens.redeem(&one, "http://a:1", 2_000), Ok(Redemption::Before), "it may ask again");
        assert_eq!(tokens.redeem(&one, "http://b:1", 2_000), Err(TokenRefusal::Used));
        assert_eq!(tokens.redeem(&other, "http://a:1", 2_000), Err(TokenRefusal::Used));
        let wrong = PresentedToken { key: Bytes::from_static(&[9; KEY_BYTES]), ..one.clone() };
        assert_eq!(tokens.redeem(&wrong, "http://a:1", 2_000), Err(TokenRefusal::Unknown));
        assert_eq!(JoinTokens::decode(tokens.encode()), Some(tokens.clone()));
        assert_eq!(tokens.redeem(&one, "http://a:1", 1_000 + 3_600_000), Err(TokenRefusal::Unknown));
        assert_eq!(tokens, JoinTokens::default(), "what has expired is forgotten");
    }

    #[test]
    fn a_planted_bug_is_found() {
        let test = a_token_serves_one_node_until_it_expires;
        assert!(base::mutant::is_caught(Mutant::JoinTokenServesTwice, test));
    }

    #[test]
    fn a_token_that_is_bound_serves_its_address_alone() {
        let mut tokens = JoinTokens::default();
        tokens.add(&token(None), "http://a:1", 0, HOUR).unwrap();
        let presented = token(None).present().unwrap();
        assert_eq!(tokens.redeem(&presented, "http://b:1", 0), Err(TokenRefusal::OtherAddress));
        assert_eq!(tokens.redeem(&presented, "https://a:1", 0), Ok(Redemption::Now { is_bound: true }));
        assert_eq!(JoinTokens::decode(tokens.encode()), Some(tokens));
    }

    #[test]
    fn tokens_are_bounded_in_number() {
        let mut tokens = JoinTokens::default();
        for _ in 0..TOKENS_MAX {
            tokens.add(&token(None), "", 0, HOUR).unwrap();
        }
        assert_eq!(tokens.add(&token(None), "", 0, HOUR), Err(Code::TooManyRequests));
        assert!(JoinTokens::decode(tokens.encode()).is_some());
        tokens.add(&token(None), "", 3_600_000, HOUR).unwrap();
    }
}
