//! What a node tells others of itself: texts and numbers by name, its round trips, samples and events, and how that is
//! written between nodes. Names that a reader does not know are kept and shown as they are, so that nodes of
//! different releases can report to each other.

use super::events::NodeEvent;
use base::NodeId;
use base::codec::{Reader, put_bytes, put_varint};
use bytes::{BufMut, Bytes};

const FORMAT: u8 = 1;
/// Entries of one table of a report that another node has sent.
const ENTRIES_MAX: usize = 4_096;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeReport {
    pub texts: Vec<(String, String)>,
    pub numbers: Vec<(String, f64)>,
    pub round_trips: Vec<PeerRoundTrip>,
    pub series: NodeSeries,
    pub events: Vec<NodeEvent>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeerRoundTrip {
    pub peer: NodeId,
    pub millis: f64,
}

/// Samples at even distances, the last at `end_ms`; NaN where nothing is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSeries {
    pub end_ms: u64,
    pub step_ms: u64,
    pub values: Vec<(String, Vec<f32>)>,
}

impl NodeReport {
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(other, _)| other == name).map(|(_, text)| text.as_str())
    }

    pub fn number(&self, name: &str) -> Option<f64> {
        self.numbers.iter().find(|(other, _)| other == name).map(|(_, number)| *number)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        put_varint(&mut out, self.texts.len() as u64);
        for (name, text) in &self.texts {
            put_bytes(&mut out, name.as_bytes());
            put_bytes(&mut out, text.as_bytes());
        }
        put_varint(&mut out, self.numbers.len() as u64);
        for (name, number) in &self.numbers {
            put_bytes(&mut out, name.as_bytes());
            out.put_u64_le(number.to_bits());
        }
        put_varint(&mut out, self.round_trips.len() as u64);
        for PeerRoundTrip { peer, millis } in &self.round_trips {
            out.put_u64_le(peer.0);
            out.put_u64_le(millis.to_bits());
        }
        out.put_u64_le(self.series.end_ms);
        out.put_u64_le(self.series.step_ms);
        put_varint(&mut out, self.series.values.len() as u64);
        for (name, values) in &self.series.values {
            put_bytes(&mut out, name.as_bytes());
            put_varint(&mut out, values.len() as u64);
            values.iter().for_each(|value| out.put_u32_le(value.to_bits()));
        }
        put_varint(&mut out, self.events.len() as u64);
        for NodeEvent { at_ms, kind, text } in &self.events {
            out.put_u64_le(*at_ms);
            put_bytes(&mut out, kind.as_bytes());
            put_bytes(&mut out, text.as_bytes());
        }
        out
    }

    pub(crate) fn decode(bytes: Bytes) -> Option<NodeReport> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != FORMAT {
            return None;
        }
        let mut report = NodeReport::default();
        for _ in 0..count(&mut reader)? {
            report.texts.push((text(&mut reader)?, text(&mut reader)?));
        }
        for _ in 0..count(&mut reader)? {
            report.numbers.push((text(&mut reader)?, f64::from_bits(reader.u64()?)));
        }
        for _ in 0..count(&mut reader)? {
            let (peer, millis) = (NodeId(reader.u64()?), f64::from_bits(reader.u64()?));
            report.round_trips.push(PeerRoundTrip { peer, millis });
        }
        (report.series.end_ms, report.series.step_ms) = (reader.u64()?, reader.u64()?);
        for _ in 0..count(&mut reader)? {
            let name = text(&mut reader)?;
            let values =
                (0..count(&mut reader)?).map(|_| reader.u32().map(f32::from_bits)).collect::<Option<_>>()?;
            report.series.values.push((name, values));
        }
        for _ in 0..count(&mut reader)? {
            let at_ms = reader.u64()?;
            report.events.push(NodeEvent { at_ms, kind: text(&mut reader)?, text: text(&mut reader)? });
        }
        Some(report)
    }
}

fn count(reader: &mut Reader) -> Option<usize> {
    usize::try_from(reader.varint()?).ok().filter(|count| *count <= ENTRIES_MAX)
}

fn text(reader: &mut Reader) -> Option<String> {
    String::from_utf8(reader.bytes()?.into()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> NodeReport {
        NodeReport {
            texts: vec![("name".into(), "n1".into())],
            numbers: vec![("keys".into(), 4.0)],
            round_trips: vec![PeerRoundTrip { peer: NodeId(7), millis: 0.25 }],
            series: NodeSeries { end_ms: 9, step_ms: 5, values: vec![("cpu".into(), vec![1.0, 2.0])] },
            events: vec![NodeEvent { at_ms: 3, kind: "leader".into(), text: "n1 leads".into() }],
        }
    }

    #[test]
    fn a_report_reads_back_and_half_of_one_does_not() {
        let bytes = Bytes::from(report().encode());
        assert_eq!(NodeReport::decode(bytes.clone()), Some(report()));
        assert!((0..bytes.len()).all(|end| NodeReport::decode(bytes.slice(..end)).is_none()));
    }

    #[test]
    fn a_report_that_claims_too_much_is_refused() {
        let mut bytes = vec![FORMAT];
        put_varint(&mut bytes, u64::MAX);
        assert_eq!(NodeReport::decode(bytes.into()), None);
    }
}
