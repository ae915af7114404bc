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
/// For one member to answer, and for the whole search.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(8);
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(300);

/// The place that a new node was given.
pub(crate) struct Place {
    pub identity: Identity,
    pub members: Members,
}

/// Asks until a member knows this node.
pub(crate) fn find_place(config: &Config, join: &Join) -> Result<Place, Error> {
    let until = Instant::now() + PATIENCE;
    let mut trouble = String::from("nobody was asked");
    let mut question = vec![FORMAT, u8::from(join.add)];
    put_bytes(&mut question, url(&config.advertise_peer).as_bytes());
    while Instant::now() < until {
        for address in &join.ask {
            match ask(address, &question, config) {
                Ok(place) => return Ok(place),
                Err(error) => trouble = format!("{address}: {error}"),
            }
        }
        thread::sleep(PAUSE);
    }
    Err(Error::NotAdmitted { peer: config.advertise_peer.clone(), trouble })
}

fn ask(address: &str, question: &[u8], config: &Config) -> Result<Place, String> {
    let answer = question::ask(address, question, ANSWER_TIMEOUT).map_err(|error| error.to_string())?;
    let (cluster, members) = decode(answer)?;
    let own = |url: &String| place(url) == config.advertise_peer;
    let me = members.iter().find(|member| member.peer_urls.iter().any(own)).map(|member| member.id);
    let Some(me) = me else { return Err("it does not know this node's peer address".to_owned()) };
    let identity = Identity { cluster, member: me, name: config.name.clone() };
    Ok(Place { identity, members })
}

fn decode(answer: Bytes) -> Result<(ClusterId, Members), String> {
    let mut reader = Reader::new(answer);
    match reader.u8() {
        Some(KNOWN) => {
            let cluster = reader.u64().map(ClusterId);
            let members = Members::decode(reader.rest());
            cluster.zip(members).ok_or_else(|| "its answer cannot be read".to_owned())
        }
        Some(REFUSED) => Err(String::from_utf8_lossy(&reader.rest()).into_owned()),
        _ => Err("its answer cannot be read".to_owned()),
    }
}

/// The other side. Blocks until the node is added, if it asks for that.
pub(crate) fn answer(handle: &Handle, question: Bytes) -> Bytes {
    let members = match parse(question) {
        None => Err("the question cannot be read".to_owned()),
        Some((add, peer_url)) => admit(handle, add, peer_url).map_err(|code| code.to_string()),
    };
    let mut out = Vec::new();
    match members {
        Ok(members) => {
            out.push(KNOWN);
            out.put_u64_le(handle.identity().cluster.0);
            out.extend(members.encode());
        }
        Err(why) => {
            out.push(REFUSED);
            out.extend_from_slice(why.as_bytes());
        }
    }
    out.into()
}

fn parse(question: Bytes) -> Option<(bool, String)> {
    let mut reader = Reader::new(question);
    if reader.u8()? != FORMAT {
        return None;
    }
    let add = reader.bool()?;
    let peer_url = String::from_utf8(reader.bytes()?.into()).ok()?;
    reader.is_empty().then_some((add, peer_url))
}

fn admit(handle: &Handle, add: bool, peer_url: String) -> Result<Members, Code> {
    let table = handle.member_table();
    if table.is_empty() {
        return Err(Code::NoLeader);
    }
    let is_known = |url: &String| place(url) == place(&peer_url);
    if !add || table.iter().any(|member| member.peer_urls.iter().any(is_known)) {
        return Ok(table);
    }
    let added: NodeId = handle.add_member_blocking(vec![peer_url])?;
    tracing::info!(peer = added.0, "added a node that asked to join");
    Ok(handle.member_table())
}
