//! Finds the nodes of other regions: asks the places that the table of regions names, and whoever was found before,
//! for the nodes there and how they are reached, and has the peer streams lead to them. The other side answers only
//! regions that are in its own table. It is a thread of its own, so that nothing waits for a region that is away.

use crate::core::Core;
use crate::handle::Handle;
use crate::mesh::atlas::Charted;
use crate::peer::{Deliver, Peers, question};
use base::codec::{Reader, put_bytes, put_varint};
use base::{ClusterId, NodeId};
use bytes::{BufMut, Bytes};
use mesh::regions::{DOCUMENT, Region};
use mesh::{RegionId, Regions};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The first byte of the question; those of new members begin otherwise.
pub(crate) const FORMAT: u8 = 2;
const TOLD: u8 = 1;
const REFUSED: u8 = 2;
/// More nodes than a region can have.
const NODES_MAX: usize = 4_096;
/// For one place to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a region is asked that has not answered yet, and one that has.
const SEARCH_EVERY: Duration = Duration::from_millis(300);
const REFRESH_EVERY: Duration = Duration::from_secs(3);

pub(crate) struct Scout {
    core: Arc<Core>,
    peers: Arc<Peers>,
    deliver: Deliver,
    cluster: ClusterId,
    /// The name of this region.
    here: String,
    /// When each region is asked next.
    due: BTreeMap<RegionId, Instant>,
    /// The place that answered last.
    favourites: BTreeMap<RegionId, String>,
}

impl Scout {
    pub fn new(
        core: Arc<Core>,
        peers: Arc<Peers>,
        deliver: Deliver,
        cluster: ClusterId,
        here: String,
    ) -> Scout {
        Scout { core, peers, deliver, cluster, here, due: BTreeMap::new(), favourites: BTreeMap::new() }
    }

    /// Until its queue is closed; whatever is put into it means that the table may be another.
    pub fn run(mut self) {
        let core = self.core.clone();
        let mut news = Vec::new();
        let mut next = Instant::now();
        while core.mesh.scout.take(&mut news, Some(next)) {
            news.clear();
            let table = table(&core);
            self.keep(&table);
            let here = RegionId::of(&self.here);
            for region in table.iter().filter(|region| region.id != here) {
                let is_due = self.due.get(&region.id).is_none_or(|due| *due <= Instant::now());
                if is_due && !core.mesh.scout.is_closed() {
                    self.ask(region);
                }
            }
            self.lead_streams();
            next = self.due.values().min().copied().unwrap_or_else(|| Instant::now() + REFRESH_EVERY);
        }
    }

    fn keep(&mut self, table: &Regions) {
        self.due.retain(|region, _| table.get(*region).is_some());
        self.favourites.retain(|region, _| table.get(*region).is_some());
        self.core.mesh.atlas.keep(table);
    }

    fn lead_streams(&self) {
        if let Err(error) = self.peers.set_strangers(&self.core.mesh.atlas.strangers(), &self.deliver) {
            tracing::error!(%error, "cannot start a stream to a node of another region");
        }
    }

    fn ask(&mut self, region: &Region) {
        let told = self.ask_places(region);
        let pause = if told.is_ok() { REFRESH_EVERY } else { SEARCH_EVERY };
        self.due.insert(region.id, Instant::now() + pause);
        let before = self.core.mesh.atlas.trouble(region.id);
        if let Err(trouble) = &told
            && before.as_ref() != Some(trouble)
        {
            tracing::warn!(
                region = region.name,
                trouble,
                "cannot ask another region for its nodes; retrying"
            );
        }
        self.core.mesh.atlas.chart(region.id, told);
    }

    /// The place that answered last, then those of the table, then whoever was found before.
    fn ask_places(&mut self, region: &Region) -> Result<Charted, String> {
        let found = self.core.mesh.atlas.nodes(region.id).into_values();
        let favourite = self.favourites.get(&region.id).cloned();
        let mut asked = BTreeSet::new();
        let places = favourite.into_iter().chain(region.seeds.iter().cloned()).chain(found);
        let mut trouble = "no place is known to ask".to_owned();
        for place in places.collect::<Vec<_>>() {
            if self.core.mesh.scout.is_closed() || !asked.insert(place.clone()) {
                continue;
            }
            match self.ask_place(region, &place) {
                Ok(charted) => {
                    self.favourites.insert(region.id, place);
                    return Ok(charted);
                }
                Err(why) => trouble = format!("{place}: {why}"),
            }
        }
        Err(trouble)
    }

    fn ask_place(&self, region: &Region, place: &str) -> Result<Charted, String> {
        let question = question_of(&self.here, self.cluster);
        let answer = question::ask(place, &question, ANSWER_TIMEOUT, self.core.peer_tls.as_deref())
            .map_err(|error| error.to_string())?;
        let (name, charted) = decode(answer)?;
        if name != region.name {
            return Err(format!("region `{name}` answers there"));
        }
        if charted.cluster == self.cluster {
            return Err("this very cluster answers there".to_owned());
        }
        let topology = self.core.mesh.board.topology();
        if charted.nodes.keys().any(|node| topology.member(*node).is_some()) {
            return Err(
                "a node there has the id of one here; give each region its own --cluster-token".into()
            );
        }
        Ok(charted)
    }
}

/// What the cluster has agreed on, as far as it is known here.
pub(crate) fn table(core: &Core) -> Regions {
    let Some(document) = core.documents.get(DOCUMENT) else { return Regions::default() };
    let Some(mut table) = Regions::decode(document.bytes) else {
        tracing::error!(version = document.version, "the table of regions cannot be read");
        return Regions::default();
    };
    table.version = document.version;
    table
}

fn question_of(here: &str, cluster: ClusterId) -> Vec<u8> {
    let mut out = vec![FORMAT];
    put_bytes(&mut out, here.as_bytes());
    out.put_u64_le(cluster.0);
    out
}

fn parse(question: Bytes) -> Option<(String, ClusterId)> {
    let mut reader = Reader::new(question);
    if reader.u8()? != FORMAT {
        return None;
    }
    let name = String::from_utf8(reader.bytes()?.into()).ok()?;
    let cluster = ClusterId(reader.u64()?);
    reader.is_empty().then_some((name, cluster))
}

fn decode(answer: Bytes) -> Result<(String, Charted), String> {
    let told = |mut reader: Reader| {
        let name = String::from_utf8(reader.bytes()?.into()).ok()?;
        let cluster = ClusterId(reader.u64()?);
        let count = reader.count().filter(|count| *count <= NODES_MAX)?;
        let node = |reader: &mut Reader| {
            Some((NodeId(reader.u64()?), String::from_utf8(reader.bytes()?.into()).ok()?))
        };
        let nodes = (0..count).map(|_| node(&mut reader)).collect::<Option<_>>()?;
        reader.is_empty().then_some((name, Charted { cluster, nodes }))
    };
    let mut reader = Reader::new(answer);
    match reader.u8() {
        Some(TOLD) => told(reader).ok_or_else(|| "its answer cannot be read".to_owned()),
        Some(REFUSED) => Err(String::from_utf8_lossy(&reader.rest()).into_owned()),
        _ => Err("its answer cannot be read".to_owned()),
    }
}

/// The other side.
pub(crate) fn answer(handle: &Handle, question: Bytes) -> Bytes {
    let core = &handle.shared.core;
    let here = &core.mesh.region;
    let refused = match parse(question) {
        None => Some("the question cannot be read".to_owned()),
        Some((name, _)) if name == *here => {
            Some(format!("both sides call themselves region `{here}`; each needs a --region of its own"))
        }
        Some((_, cluster)) if cluster == handle.identity().cluster => {
            Some("this is the same cluster".to_owned())
        }
        Some((name, _)) if table(core).get(RegionId::of(&name)).is_none() => {
            Some(format!("region `{name}` is not listed there; `althing region add {name} …` lists it"))
        }
        Some(_) => None,
    };
    let mut out = Vec::new();
    if let Some(why) = refused {
        out.push(REFUSED);
        out.extend_from_slice(why.as_bytes());
        return out.into();
    }
    let topology = core.mesh.board.topology();
    let place = |node: NodeId| Some((node, core.mesh.atlas.address(node)?));
    let nodes: Vec<(NodeId, String)> =
        topology.members().iter().filter_map(|member| place(member.node)).collect();
    out.push(TOLD);
    put_bytes(&mut out, here.as_bytes());
    out.put_u64_le(handle.identity().cluster.0);
    put_varint(&mut out, nodes.len() as u64);
    for (node, address) in nodes {
        out.put_u64_le(node.0);
        put_bytes(&mut out, address.as_bytes());
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_reads_back_and_cut_ones_are_refused() {
        let bytes = Bytes::from(question_of("eu", ClusterId(7)));
        assert_eq!(parse(bytes.clone()), Some(("eu".to_owned(), ClusterId(7))));
        assert!((0..bytes.len()).all(|cut| parse(bytes.slice(..cut)).is_none()));
    }

    #[test]
    fn what_is_no_answer_is_trouble() {
        for junk in
            [&b""[..], &[9], &[TOLD], &[TOLD, 2, b'e'], &[TOLD, 0, 1, 2, 3, 4, 5, 6, 7, 8, 255, 255, 127]]
        {
            assert!(decode(Bytes::copy_from_slice(junk)).is_err());
        }
        assert_eq!(decode(Bytes::from_static(b"\x02go away")), Err("go away".to_owned()));
    }
}
