//! Discovers the nodes of other regions: decides which region is asked, when and at which address, and checks the answer. The
//! address that answered last is asked first, then those of the table, then nodes that were found before. The other side
//! answers only regions that are in its own table.

use crate::address_book::{AddressBook, RegionNodes};
use base::codec::{Reader, put_bytes, put_varint};
use base::{ClusterId, Instant, NodeId};
use bytes::{BufMut, Bytes};
use mesh::{Region, RegionId, Regions, Topology};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The first byte of the question; those of new members begin otherwise.
const FORMAT: u8 = 2;
const TOLD: u8 = 1;
const REFUSED: u8 = 2;
/// More nodes than a region can have.
const NODES_MAX: usize = 4_096;
/// How often a region is asked that has not answered yet, and one that has.
const SEARCH_EVERY: Duration = Duration::from_millis(300);
const REFRESH_EVERY: Duration = Duration::from_secs(3);

/// For the peer port at a place; `Input::Answered` brings the answer. A region is asked one question at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionQuery {
    pub region: RegionId,
    pub address: String,
    pub bytes: Bytes,
}

/// What both sides go by.
pub struct DiscoveryContext<'a> {
    /// The name of this region.
    pub region: &'a str,
    pub cluster: ClusterId,
    pub table: &'a Regions,
    pub topology: Option<&'a Topology>,
    pub addresses: &'a AddressBook,
}

#[derive(Debug, Default)]
pub(crate) struct Discovery {
    /// When each region is asked next.
    due: BTreeMap<RegionId, Instant>,
    /// The place that answered last.
    last_answered: BTreeMap<RegionId, String>,
    pending: BTreeMap<RegionId, PendingQuery>,
}

/// A region that is being asked.
#[derive(Debug)]
struct PendingQuery {
    address: String,
    /// To be asked if this address does not answer.
    rest: VecDeque<String>,
}

/// What became of asking a region.
pub(crate) enum DiscoveryStep {
    Ask(RegionQuery),
    Done(Result<RegionNodes, String>),
}

impl Discovery {
    /// Regions that are not listed any more are forgotten.
    pub fn keep(&mut self, table: &Regions) {
        self.due.retain(|region, _| table.get(*region).is_some());
        self.last_answered.retain(|region, _| table.get(*region).is_some());
        self.pending.retain(|region, _| table.get(*region).is_some());
    }

    /// The regions that it is time to ask, with the first place of each; an error for one without any place.
    pub fn tick(&mut self, now: Instant, context: &DiscoveryContext<'_>) -> Vec<(RegionId, DiscoveryStep)> {
        let here = RegionId::of(context.region);
        let is_due = |region: &&Region| {
            let due = self.due.get(&region.id).is_none_or(|due| *due <= now);
            region.id != here && due && !self.pending.contains_key(&region.id)
        };
        let due: Vec<&Region> = context.table.iter().filter(is_due).collect();
        due.into_iter().map(|region| (region.id, self.begin(now, region, context))).collect()
    }

    fn begin(&mut self, now: Instant, region: &Region, context: &DiscoveryContext<'_>) -> DiscoveryStep {
        let found = context.addresses.nodes(region.id).into_values();
        let preferred = self.last_answered.get(&region.id).cloned();
        let mut addresses = VecDeque::new();
        for address in preferred.into_iter().chain(region.seeds.iter().cloned()).chain(found) {
            if !addresses.contains(&address) {
                addresses.push_back(address);
            }
        }
        match addresses.pop_front() {
            Some(address) => self.ask(region.id, address, addresses, context),
            None => {
                self.due.insert(region.id, now.after(SEARCH_EVERY));
                DiscoveryStep::Done(Err("no place is known to ask".to_owned()))
            }
        }
    }

    fn ask(
        &mut self,
        region: RegionId,
        address: String,
        rest: VecDeque<String>,
        context: &DiscoveryContext<'_>,
    ) -> DiscoveryStep {
        self.pending.insert(region, PendingQuery { address: address.clone(), rest });
        DiscoveryStep::Ask(RegionQuery { region, address, bytes: question(context.region, context.cluster) })
    }

    /// A place has answered, or could not be asked. None if that region is not being asked.
    pub fn receive(
        &mut self,
        now: Instant,
        region: RegionId,
        answer: Result<Bytes, String>,
        context: &DiscoveryContext<'_>,
    ) -> Option<DiscoveryStep> {
        let PendingQuery { address, mut rest } = self.pending.remove(&region)?;
        let listed = context.table.get(region)?;
        let judged = answer.and_then(|answer| parse_answer(answer, listed, context));
        Some(match (judged, rest.pop_front()) {
            (Ok(nodes), _) => {
                self.last_answered.insert(region, address);
                self.due.insert(region, now.after(REFRESH_EVERY));
                DiscoveryStep::Done(Ok(nodes))
            }
            (Err(_), Some(next)) => self.ask(region, next, rest, context),
            (Err(why), None) => {
                self.due.insert(region, now.after(SEARCH_EVERY));
                DiscoveryStep::Done(Err(format!("{address}: {why}")))
            }
        })
    }
}

fn parse_answer(
    answer: Bytes,
    region: &Region,
    context: &DiscoveryContext<'_>,
) -> Result<RegionNodes, String> {
    let (name, told) = decode(answer)?;
    if name != region.name {
        return Err(format!("region `{name}` answers there"));
    }
    if told.cluster == context.cluster {
        return Err("this very cluster answers there".to_owned());
    }
    let is_ours = |node: &NodeId| context.topology.is_some_and(|topology| topology.member(*node).is_some());
    if told.nodes.keys().any(is_ours) {
        return Err("a node there has the id of one here; give each region its own --cluster-token".into());
    }
    Ok(told)
}

fn question(here: &str, cluster: ClusterId) -> Bytes {
    let mut out = vec![FORMAT];
    put_bytes(&mut out, here.as_bytes());
    out.put_u64_le(cluster.0);
    out.into()
}

/// Whether what came to the peer port is a question of another region.
pub fn is_region_question(question: &Bytes) -> bool {
    question.first() == Some(&FORMAT)
}

/// Which region says that it asks.
pub fn asking_region(question: &Bytes) -> Option<String> {
    parse(question.clone()).map(|(name, _)| name)
}

/// A refusal with its reason.
pub fn refuse_question(why: &str) -> Bytes {
    [&[REFUSED], why.as_bytes()].concat().into()
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

fn decode(answer: Bytes) -> Result<(String, RegionNodes), String> {
    let decode_nodes = |mut reader: Reader| {
        let name = String::from_utf8(reader.bytes()?.into()).ok()?;
        let cluster = ClusterId(reader.u64()?);
        let count = reader.count().filter(|count| *count <= NODES_MAX)?;
        let node = |reader: &mut Reader| {
            Some((NodeId(reader.u64()?), String::from_utf8(reader.bytes()?.into()).ok()?))
        };
        let nodes = (0..count).map(|_| node(&mut reader)).collect::<Option<_>>()?;
        reader.is_empty().then_some((name, RegionNodes { cluster, nodes }))
    };
    let mut reader = Reader::new(answer);
    match reader.u8() {
        Some(TOLD) => decode_nodes(reader).ok_or_else(|| "its answer cannot be read".to_owned()),
        Some(REFUSED) => Err(String::from_utf8_lossy(&reader.rest()).into_owned()),
        _ => Err("its answer cannot be read".to_owned()),
    }
}

/// What another region is told that asks for the nodes of this one.
pub fn answer_question(question: Bytes, context: &DiscoveryContext<'_>) -> Bytes {
    let here = context.region;
    let refused = match parse(question) {
        None => Some("the question cannot be read".to_owned()),
        Some((name, _)) if name == here => {
            Some(format!("both sides call themselves region `{here}`; each needs a --region of its own"))
        }
        Some((_, cluster)) if cluster == context.cluster => Some("this is the same cluster".to_owned()),
        Some((name, _)) if context.table.get(RegionId::of(&name)).is_none() => {
            Some(format!("region `{name}` is not listed there; `althing region add {name} …` lists it"))
        }
        Some(_) => None,
    };
    if let Some(why) = refused {
        return refuse_question(&why);
    }
    let mut out = Vec::new();
    let members = context.topology.map(Topology::members).unwrap_or_default();
    let nodes: Vec<(NodeId, &String)> = members
        .iter()
        .filter_map(|member| Some((member.node, context.addresses.address(member.node)?)))
        .collect();
    out.push(TOLD);
    put_bytes(&mut out, here.as_bytes());
    out.put_u64_le(context.cluster.0);
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
        let bytes = question("eu", ClusterId(7));
        assert!(is_region_question(&bytes));
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

    #[test]
    fn places_are_asked_one_after_the_other_and_the_one_that_answered_is_asked_first_next_time() {
        let table = Regions::default().with(Region::new("us", vec!["a".into(), "b".into()])).unwrap();
        let addresses = AddressBook::default();
        let context = |region, cluster| DiscoveryContext {
            region,
            cluster: ClusterId(cluster),
            table: &table,
            topology: None,
            addresses: &addresses,
        };
        let here = context("eu", 1);
        let (mut discovery, us) = (Discovery::default(), RegionId::of("us"));
        let address = |progress: Option<DiscoveryStep>| match progress {
            Some(DiscoveryStep::Ask(question)) => question.address,
            _ => panic!("a question was expected"),
        };
        let mut asked = discovery.tick(Instant(0), &here);
        assert_eq!(address(asked.pop().map(|(_, progress)| progress)), "a");
        assert!(discovery.tick(Instant(0), &here).is_empty(), "one question at a time");
        assert_eq!(address(discovery.receive(Instant(0), us, Err("away".into()), &here)), "b");
        let listed = Regions::default().with(Region::new("eu", vec![])).unwrap();
        let there = DiscoveryContext { table: &listed, ..context("us", 2) };
        let answer = answer_question(question("eu", ClusterId(1)), &there);
        let over = discovery.receive(Instant(0), us, Ok(answer), &here);
        assert!(matches!(over, Some(DiscoveryStep::Done(Ok(told))) if told.cluster == ClusterId(2)));
        assert!(discovery.tick(Instant(0), &here).is_empty(), "it was asked a moment ago");
        let mut again = discovery.tick(Instant(0).after(REFRESH_EVERY), &here);
        assert_eq!(address(again.pop().map(|(_, progress)| progress)), "b");
    }
}
