//! How a new node comes into a cluster: it asks any member who belongs to it, and finds its own place by the address at
//! which it is reached. It may ask to be added first; otherwise somebody has added it before it was started.
//! The question and the answer are bytes on the peer port; whoever cannot answer yet is asked again, for a while.

use crate::config::{Config, Join};
use crate::error::Error;
use crate::handle::Handle;
use crate::members::{place, url};
use crate::peer::question;
use crate::status::Identity;
use base::codec::{Reader, put_bytes};
use base::{ClusterId, Code, NodeId};
use bytes::{BufMut, Bytes};
use coord::Members;
use std::thread;
use std::time::{Duration, Instant};

const FORMAT: u8 = 1;
const KNOWN: u8 = 1;
const REFUSED: u8 = 2;
const KNOWN_NODE: u8 = 3;
/// As `KNOWN`, and it is this question that has added the node. An older node cannot read it and asks again.
const ADDED: u8 = 4;
/// With so many votes a cluster has enough of them: who joins keeps data alone.
const VOTERS_ENOUGH: usize = 5;
/// For one member to answer, and for the whole search.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(8);
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(300);

/// The place that a new node was given.
pub(crate) struct Place {
    pub identity: Identity,
    pub members: Members,
    /// It keeps data, and is no member.
    pub data_only: bool,
    /// Its id was given out just now, to this process: nobody can have voted under it.
    pub is_new: bool,
}

/// What a node wants that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Wish {
    /// To know its place; somebody has given it one.
    Known = 0,
    Added = 1,
    /// To keep data alone.
    DataOnly = 2,
}

/// Asks until a member knows this node.
pub(crate) fn find_place(config: &Config, join: &Join, tls: Option<&tls::Peers>) -> Result<Place, Error> {
    let until = Instant::now() + PATIENCE;
    let mut trouble = String::from("nobody was asked");
    let wish = match (config.mesh.data_only, join.add) {
        (true, _) => Wish::DataOnly,
        (false, true) => Wish::Added,
        (false, false) => Wish::Known,
    };
    let mut question = vec![FORMAT, wish as u8];
    let peer_url = url(&config.advertise_peer, config.peer_tls.is_some());
    put_bytes(&mut question, peer_url.as_bytes());
    while Instant::now() < until {
        for address in &join.ask {
            match ask(address, &question, config, tls) {
                Ok(place) => return Ok(place),
                Err(error) => trouble = format!("{address}: {error}"),
            }
        }
        thread::sleep(PAUSE);
    }
    Err(Error::NotAdmitted { peer: config.advertise_peer.clone(), trouble })
}

fn ask(address: &str, question: &[u8], config: &Config, tls: Option<&tls::Peers>) -> Result<Place, String> {
    let answer = question::ask(address, question, ANSWER_TIMEOUT, tls).map_err(|error| error.to_string())?;
    let Answered { cluster, node, members, is_new } = decode(answer)?;
    let own = |url: &String| place(url) == config.advertise_peer;
    let me = members.iter().find(|member| member.peer_urls.iter().any(own)).map(|member| member.id);
    let Some(me) = node.or(me) else { return Err("it does not know this node's peer address".to_owned()) };
    let identity = Identity { cluster, member: me, name: config.name.clone() };
    Ok(Place { identity, members, data_only: node.is_some(), is_new })
}

struct Answered {
    cluster: ClusterId,
    /// The asker's id, if it keeps data alone.
    node: Option<NodeId>,
    members: Members,
    is_new: bool,
}

fn decode(answer: Bytes) -> Result<Answered, String> {
    let known = |mut reader: Reader, kind: u8| {
        let cluster = ClusterId(reader.u64()?);
        let node = if kind == KNOWN_NODE { Some(NodeId(reader.u64()?)) } else { None };
        let members = Members::decode(reader.rest())?;
        Some(Answered { cluster, node, members, is_new: kind == ADDED })
    };
    let illegible = || "its answer cannot be read".to_owned();
    let mut reader = Reader::new(answer);
    match reader.u8() {
        Some(kind @ (KNOWN | KNOWN_NODE | ADDED)) => known(reader, kind).ok_or_else(illegible),
        Some(REFUSED) => Err(String::from_utf8_lossy(&reader.rest()).into_owned()),
        _ => Err(illegible()),
    }
}

/// The other side. Blocks until the node is added, if it asks for that.
pub(crate) fn answer(handle: &Handle, question: Bytes) -> Bytes {
    let admitted = match parse(question) {
        None => Err("the question cannot be read".to_owned()),
        Some((wish, peer_url)) => admit(handle, wish, peer_url).map_err(|code| code.to_string()),
    };
    let mut out = Vec::new();
    match admitted {
        Ok(admitted) => {
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
            out.push(REFUSED);
            out.extend_from_slice(why.as_bytes());
        }
    }
    out.into()
}

fn parse(question: Bytes) -> Option<(Wish, String)> {
    let mut reader = Reader::new(question);
    if reader.u8()? != FORMAT {
        return None;
    }
    let wish = match reader.u8()? {
        0 => Wish::Known,
        1 => Wish::Added,
        2 => Wish::DataOnly,
        _ => return None,
    };
    let peer_url = String::from_utf8(reader.bytes()?.into()).ok()?;
    reader.is_empty().then_some((wish, peer_url))
}

enum Admitted {
    Known,
    /// By this question.
    Added,
    DataOnly(NodeId),
}

fn admit(handle: &Handle, wish: Wish, peer_url: String) -> Result<Admitted, Code> {
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
    tracing::info!(peer = added.0, "added a node that asked to join");
    Ok(Admitted::Added)
}
