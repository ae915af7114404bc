//! What a user may read and write: the permissions of all its roles together. Roles go in, and whether a range of
//! keys is covered comes out. A permission that is added or taken away changes the grants on its keys, and nothing
//! else.

use super::intervals::Intervals;
use super::{Access, Role};
use crate::mutant::Mutant;
use base::mutant::planted;
use base::{KeyRange, RangeEnd};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Grants {
    pub read: Intervals,
    pub write: Intervals,
}

impl Grants {
    pub fn of<'r>(roles: impl Iterator<Item = &'r Role>) -> Grants {
        let roles: Vec<&Role> = roles.collect();
        let of =
            |wanted: fn(Access) -> bool| Intervals::union(roles.iter().flat_map(|role| role.ranges(wanted)));
        Grants { read: of(Access::reads), write: of(Access::writes) }
    }

    /// The user has one more role.
    pub fn add(&mut self, role: &Role) {
        self.read.add(role.ranges(Access::reads));
        self.write.add(role.ranges(Access::writes));
    }

    /// One of the roles permits something else for these keys now.
    pub fn change(&mut self, roles: &[&Role], keys: &KeyRange, old: Option<Access>, new: Option<Access>) {
        change(&mut self.read, roles, keys, Access::reads, (old, new));
        change(&mut self.write, roles, keys, Access::writes, (old, new));
    }
}

fn change(
    set: &mut Intervals,
    roles: &[&Role],
    keys: &KeyRange,
    wanted: fn(Access) -> bool,
    (old, new): (Option<Access>, Option<Access>),
) {
    match (old.is_some_and(wanted), new.is_some_and(wanted)) {
        (false, true) => set.add(std::iter::once(keys)),
        (true, false) if !keys.is_empty() && !planted(Mutant::RevokedRangeStays) => {
            let around = set.around(keys).expect("what was granted is in the set");
            // Every range that begins in an interval ends in it.
            let left: Vec<&KeyRange> = roles.iter().flat_map(|role| within(role, &around, wanted)).collect();
            set.reduce(&around.start, left.into_iter());
        }
        _ => {}
    }
}

impl Role {
    fn ranges(&self, wanted: fn(Access) -> bool) -> impl Iterator<Item = &KeyRange> {
        self.permissions.iter().filter(move |(_, access)| wanted(**access)).map(|(keys, _)| keys)
    }
}

/// The ranges of a role that begin within these keys.
fn within<'r>(
    role: &'r Role,
    keys: &'r KeyRange,
    wanted: fn(Access) -> bool,
) -> impl Iterator<Item = &'r KeyRange> {
    let first = KeyRange { start: keys.start.clone(), end: RangeEnd::Single };
    let beginning = role.permissions.range(first..).take_while(|(range, _)| keys.contains(&range.start));
    beginning.filter(move |(_, access)| wanted(**access)).map(|(range, _)| range)
}
