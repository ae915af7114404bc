//! Merge handlers of `custom` values, by name: a handler merges two concurrent values.
//! A `custom` record keeps concurrent values as siblings, and replicas merge it as siblings. A handler decides only what a
//! reader gets and what the next write builds on. So replicas agree whatever a handler does, and a handler that is missing
//! or fails costs no more than last-write-wins. The registry is a document that regions exchange (`versioned.rs`). The
//! machine runs built-in handlers; the shell runs scripts, where a slow one stops nothing else (ADR 57).

#[cfg(test)]
mod tests;

use crate::actor::RegionId;
use crate::decimal::Decimal;
use crate::json::Json;
use crate::siblings::Siblings;
use crate::versioned::{VersionedMap, VersionedValue};
use base::codec::{Reader, put_bytes};
use base::{Code, FormatLevel, Rng};
use bytes::Bytes;

const VERSION: u8 = 2;
/// Without a version of each entry: the oldest formats of a cluster.
const UNVERSIONED: u8 = 1;
const HANDLERS_MAX: usize = 256;
const NAME_BYTES_MAX: usize = 128;
const SOURCE_BYTES_MAX: usize = 16 * 1024;
/// Generated cases that a handler is tried on before it is taken.
const TRIALS: usize = 256;

/// Runs what users write. It must give the same for the same, touch nothing, and end: `None` is for a script that
/// failed or took too many steps.
pub trait Script {
    fn merge(&self, source: &str, left: &Bytes, right: &Bytes) -> Option<Bytes>;
}

/// Runs no scripts.
pub struct NoScript;

impl Script for NoScript {
    fn merge(&self, _: &str, _: &Bytes, _: &Bytes) -> Option<Bytes> {
        None
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handler {
    /// The larger: as numbers if both are, else by their bytes; a number is less than what is none.
    Max,
    Min,
    /// The longer; of two as long, the larger.
    Longest,
    /// Objects member by member, of anything else the greater; what is no JSON gives way to what is.
    JsonMerge,
    Script(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handlers {
    /// Beside the built-ins, which are always there.
    registered: VersionedMap<ScriptSource>,
}

/// The text of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ScriptSource(String);

impl ScriptSource {
    fn is_lawful(&self) -> bool {
        (1..=SOURCE_BYTES_MAX).contains(&self.0.len())
    }

    fn handler(&self) -> Handler {
        Handler::Script(self.0.clone())
    }
}

impl VersionedValue for ScriptSource {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.0.as_bytes());
    }

    fn decode(reader: &mut Reader) -> Option<ScriptSource> {
        Some(ScriptSource(String::from_utf8(reader.bytes()?.into()).ok()?)).filter(ScriptSource::is_lawful)
    }
}

/// What a handler has made of values side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldedValue {
    pub value: Bytes,
    /// No handler could tell: it is the last write.
    pub fell_back: bool,
}

/// Which law does not hold, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LawViolation {
    pub law: MergeLaw,
    pub values: [Bytes; 3],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeLaw {
    /// It must give something.
    Total,
    Commutative,
    Associative,
    Idempotent,
}

impl Handler {
    /// Whether it runs outside the machine.
    pub fn is_script(&self) -> bool {
        matches!(self, Handler::Script(_))
    }

    pub fn merge(&self, script: &dyn Script, left: &Bytes, right: &Bytes) -> Option<Bytes> {
        Some(match self {
            Handler::Max => left.max_by(right),
            Handler::Min => if left.max_by(right) == *left { right } else { left }.clone(),
            Handler::Longest => std::cmp::max_by_key(left, right, |value| (value.len(), *value)).clone(),
            Handler::JsonMerge => merge_json(left, right),
            Handler::Script(source) => return script.merge(source, left, right),
        })
    }

    /// Tries the handler on generated values.
    pub fn check(&self, script: &dyn Script, seed: u64) -> Result<(), LawViolation> {
        let mut rng = Rng::new(seed);
        let join = |left: &Bytes, right: &Bytes| self.merge(script, left, right);
        for _ in 0..TRIALS {
            let values = [generate(&mut rng), generate(&mut rng), generate(&mut rng)];
            let [a, b, c] = &values;
            let breach = |law| Err(LawViolation { law, values: values.clone() });
            let (Some(ab), Some(ba), Some(bc)) = (join(a, b), join(b, a), join(b, c)) else {
                return breach(MergeLaw::Total);
            };
            if ab != ba {
                return breach(MergeLaw::Commutative);
            }
            if join(&ab, c) != join(a, &bc) {
                return breach(MergeLaw::Associative);
            }
            if join(&ab, &ab).as_ref() != Some(&ab) || join(&ab, a).as_ref() != Some(&ab) {
                return breach(MergeLaw::Idempotent);
            }
        }
        Ok(())
    }
}

trait NumericMax {
    fn max_by(&self, other: &Self) -> Self;
}

impl NumericMax for Bytes {
    /// A total order: numbers by value, then by spelling, before everything else by its bytes.
    fn max_by(&self, other: &Bytes) -> Bytes {
        let number = |value: &Bytes| Decimal::parse(std::str::from_utf8(value).ok()?);
        let rank = |value: &Bytes| match number(value) {
            Some(number) => (false, number, value.clone()),
            None => (true, Decimal(0), value.clone()),
        };
        rank(self).max(rank(other)).2
    }
}

fn merge_json(left: &Bytes, right: &Bytes) -> Bytes {
    let parse = |value: &Bytes| Json::parse(std::str::from_utf8(value).ok()?);
    match (parse(left), parse(right)) {
        (Some(ours), Some(theirs)) => {
            let mut out = String::new();
            ours.merge(theirs).write(&mut out);
            out.into()
        }
        // In the form that merging gives, so that the order of merging leaves no trace.
        (Some(json), None) | (None, Some(json)) => {
            let mut out = String::new();
            json.write(&mut out);
            out.into()
        }
        (None, None) => left.max(right).clone(),
    }
}

/// A value of the sorts that people store: numbers, words, documents, bytes.
fn generate(rng: &mut Rng) -> Bytes {
    let word = |rng: &mut Rng| ["a", "b", "name", "x y", ""][rng.between(0, 5) as usize];
    match rng.between(0, 5) {
        0 => (rng.between(0, 40) as i64 - 20).to_string().into(),
        1 => format!("{}.{}", rng.between(0, 9), rng.between(0, 99)).into(),
        2 => word(rng).to_owned().into(),
        3 => {
            let member = |rng: &mut Rng| format!("\"{}\":{}", word(rng), rng.between(0, 5));
            format!("{{{},\"o\":{{{}}}}}", member(rng), member(rng)).into()
        }
        _ => (0..rng.between(0, 6)).map(|_| rng.next_u64() as u8).collect::<Vec<u8>>().into(),
    }
}

impl Handlers {
    pub fn get(&self, name: &str) -> Option<Handler> {
        Some(match name {
            "max" => Handler::Max,
            "min" => Handler::Min,
            "longest" => Handler::Longest,
            "json_merge" => Handler::JsonMerge,
            _ => return self.registered.get(name).map(ScriptSource::handler),
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = (&String, Handler)> {
        self.registered.iter().map(|(name, source)| (name, source.handler()))
    }

    /// The registry with one more script, if it keeps the laws on everything that it was tried on.
    pub fn register(
        &self,
        name: &str,
        source: &str,
        script: &dyn Script,
        here: RegionId,
    ) -> Result<Handlers, Code> {
        let next = self.with_tried(name, source, here)?;
        let seed = base::checksum::hash64(source.as_bytes(), 0);
        Handler::Script(source.to_owned()).check(script, seed).map_err(|_| Code::LawlessHandler)?;
        Ok(next)
    }

    /// The registry with one more script, which was tried already.
    pub fn with_tried(&self, name: &str, source: &str, here: RegionId) -> Result<Handlers, Code> {
        let source = ScriptSource(source.to_owned());
        let is_built_in = Handlers::default().get(name).is_some();
        let is_new = self.registered.get(name).is_none();
        let fits = is_name(name) && source.is_lawful() && (!is_new || self.registered.len() < HANDLERS_MAX);
        if is_built_in || !fits {
            return Err(Code::BadHandler);
        }
        let mut next = self.clone();
        next.registered.set(name, Some(source), here);
        Ok(next)
    }

    pub fn without(&self, name: &str, here: RegionId) -> Result<Handlers, Code> {
        self.registered.get(name).ok_or(Code::UnknownHandler)?;
        let mut next = self.clone();
        next.registered.set(name, None, here);
        Ok(next)
    }

    /// Takes over what another region has changed later.
    pub fn merge(&mut self, other: &Handlers) {
        self.registered.merge(&other.registered);
    }

    /// What values side by side come to, oldest first; the last write where no handler can tell. None for no values.
    pub fn fold(&self, name: &str, siblings: &Siblings, script: &dyn Script) -> Option<FoldedValue> {
        let mut values: Vec<_> = siblings.values().iter().collect();
        values.sort_by_key(|sibling| (sibling.stamp, sibling.dot));
        let last = values.last()?.value.clone();
        let handler = self.get(name);
        let mut rest = values.iter().map(|sibling| sibling.value.clone());
        let first = rest.next()?;
        let merged = match &handler {
            Some(handler) => rest.try_fold(first, |left, right| handler.merge(script, &left, &right)),
            None => (values.len() == 1).then_some(first),
        };
        Some(match merged {
            Some(value) => FoldedValue { value, fell_back: false },
            None => FoldedValue { value: last, fell_back: true },
        })
    }

    pub fn encode(&self, level: FormatLevel) -> Bytes {
        let is_old = level == FormatLevel::OLDEST;
        let mut out = vec![if is_old { UNVERSIONED } else { VERSION }];
        if is_old {
            self.registered.encode_unversioned_to(&mut out);
        } else {
            self.registered.encode_to(&mut out);
        }
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<Handlers> {
        let mut reader = Reader::new(bytes);
        let registered = match reader.u8()? {
            VERSION => VersionedMap::decode(&mut reader)?,
            UNVERSIONED => VersionedMap::unversioned(decode_unversioned(&mut reader)?),
            _ => return None,
        };
        let lawful = reader.is_empty() && registered.iter().all(|(name, _)| is_name(name));
        lawful.then_some(Handlers { registered })
    }
}

fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
}

fn decode_unversioned(reader: &mut Reader) -> Option<Vec<(String, ScriptSource)>> {
    let one = |reader: &mut Reader| {
        let name = String::from_utf8(reader.bytes()?.into()).ok()?;
        Some((name, ScriptSource::decode(reader)?))
    };
    (0..reader.count()?).map(|_| one(reader)).collect()
}
