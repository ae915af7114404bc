//! Values side by side: every write that no other write has seen is kept, flat, for the application to resolve.
//! A write that carries the context of a read replaces what that read saw. A write that would leave too many is
//! refused; merging never drops any, so the bound is one of writing.

use crate::actor::Dot;
use crate::context::Context;
use crate::hlc::Stamp;
use crate::set::join_dots;
use base::Code;
use base::codec::{Reader, put_bytes, put_varint};
use base::limits::MESH_SIBLINGS_MAX;
use bytes::Bytes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sibling {
    pub dot: Dot,
    pub stamp: Stamp,
    pub value: Bytes,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Siblings {
    /// By dot.
    values: Vec<Sibling>,
}

impl Siblings {
    pub fn values(&self) -> &[Sibling] {
        &self.values
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Adds a value in place of those that `read` has seen; they are put into `seen`.
    pub fn put(&mut self, value: Sibling, read: &Context, seen: &mut Context) -> Result<Siblings, Code> {
        if self.values.iter().filter(|sibling| !read.covers(sibling.dot)).count() >= MESH_SIBLINGS_MAX {
            return Err(Code::TooManySiblings);
        }
        self.drop_seen(read, seen);
        let at = self.values.partition_point(|sibling| sibling.dot < value.dot);
        self.values.insert(at, value.clone());
        Ok(Siblings { values: vec![value] })
    }

    pub fn drop_seen(&mut self, read: &Context, seen: &mut Context) {
        self.values.retain(|sibling| {
            let dropped = read.covers(sibling.dot);
            if dropped {
                seen.join(&Context::of_dot(sibling.dot));
            }
            !dropped
        });
    }

    pub fn clear(&mut self, seen: &mut Context) {
        self.values.drain(..).for_each(|sibling| seen.join(&Context::of_dot(sibling.dot)));
    }

    /// One value in the place of all, under the name of the last.
    pub fn folded(&self, value: Bytes) -> Siblings {
        let last = self.values.iter().max_by_key(|sibling| (sibling.stamp, sibling.dot));
        let values = last.map(|last| Sibling { value, ..last.clone() }).into_iter().collect();
        Siblings { values }
    }

    /// The dots must be among those that were seen.
    pub fn drop_dots(&mut self, gone: &[Dot]) {
        self.values.retain(|value| !gone.contains(&value.dot));
    }

    pub fn join(left: (&Siblings, &Context), right: (&Siblings, &Context)) -> Siblings {
        let dots = |siblings: &Siblings| siblings.values.iter().map(|value| value.dot).collect::<Vec<_>>();
        let kept = join_dots((&dots(left.0), left.1), (&dots(right.0), right.1));
        let find = |dot: &Dot| left.0.values.iter().chain(&right.0.values).find(|value| value.dot == *dot);
        Siblings { values: kept.iter().filter_map(find).cloned().collect() }
    }

    /// The same values under other names of their dots.
    pub fn renamed(&self, name: impl Fn(Dot) -> Dot) -> Siblings {
        let sibling = |sibling: &Sibling| Sibling { dot: name(sibling.dot), ..sibling.clone() };
        let mut values: Vec<Sibling> = self.values.iter().map(sibling).collect();
        values.sort_unstable_by_key(|sibling| sibling.dot);
        Siblings { values }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.values.len() as u64);
        for Sibling { dot, stamp, value } in &self.values {
            dot.encode(out);
            put_varint(out, stamp.0);
            put_bytes(out, value);
        }
    }

    pub fn decode(reader: &mut Reader) -> Option<Siblings> {
        let value = |reader: &mut Reader| {
            Some(Sibling {
                dot: Dot::decode(reader)?,
                stamp: Stamp(reader.varint()?),
                value: reader.bytes()?,
            })
        };
        let count = reader.count()?;
        let values = (0..count).map(|_| value(reader)).collect::<Option<Vec<_>>>()?;
        values.is_sorted_by(|left, right| left.dot < right.dot).then_some(Siblings { values })
    }
}
