//! What a user may do on the data plane: the permissions of its roles, merged by namespace.
//! A policy and a name go in; whether a key, a range of keys or a namespace is permitted comes out, by a search in
//! intervals and never by a walk over permissions.

use base::{KeyRange, RangeEnd};
use bytes::Bytes;
use coord::{DataAccess, DataPermission, EVERY_NAMESPACE, Intervals, Policy};
use mesh::namespaces;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataVerb {
    Read,
    Write,
    /// Changes the namespace itself; needed for all of its keys.
    Admin,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct DataRights {
    is_root: bool,
    by_space: BTreeMap<u32, SpaceRights>,
    /// In namespaces that no permission names.
    elsewhere: SpaceRights,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct SpaceRights {
    read: Intervals,
    write: Intervals,
    admin: Intervals,
}

impl SpaceRights {
    fn of<'p>(permissions: impl Iterator<Item = &'p DataPermission> + Clone) -> SpaceRights {
        let union = |wanted: fn(DataAccess) -> bool| {
            let ranges = permissions.clone().filter(|permission| wanted(permission.access));
            let ranges: Vec<KeyRange> = ranges.map(|permission| permission.range.keys()).collect();
            Intervals::union(ranges.iter())
        };
        SpaceRights {
            read: union(DataAccess::reads),
            write: union(DataAccess::writes),
            admin: union(DataAccess::administers),
        }
    }

    fn of_verb(&self, verb: DataVerb) -> &Intervals {
        match verb {
            DataVerb::Read => &self.read,
            DataVerb::Write => &self.write,
            DataVerb::Admin => &self.admin,
        }
    }
}

impl DataRights {
    pub fn of(policy: &Policy, user: &str) -> DataRights {
        let named: BTreeSet<&str> = policy
            .permissions_of(user)
            .map(|permission| permission.range.namespace.as_str())
            .filter(|namespace| *namespace != EVERY_NAMESPACE)
            .collect();
        let of_space = |namespace: &str| {
            let applies = move |permission: &&DataPermission| {
                let named = permission.range.namespace.as_str();
                named == namespace || named == EVERY_NAMESPACE
            };
            let permissions: Vec<&DataPermission> = policy.permissions_of(user).filter(applies).collect();
            SpaceRights::of(permissions.into_iter())
        };
        let by_space = named.into_iter().map(|name| (namespaces::id_of(name), of_space(name))).collect();
        DataRights { is_root: policy.is_root(user), by_space, elsewhere: of_space(EVERY_NAMESPACE) }
    }

    pub fn is_root(&self) -> bool {
        self.is_root
    }

    fn in_space(&self, space: u32) -> &SpaceRights {
        self.by_space.get(&space).unwrap_or(&self.elsewhere)
    }

    pub fn may_key(&self, verb: DataVerb, space: u32, key: &[u8]) -> bool {
        self.is_root || self.in_space(space).of_verb(verb).contain_key(key)
    }

    /// Every key from the start on, before the end where there is one.
    pub fn may_range(&self, verb: DataVerb, space: u32, start: &Bytes, end: Option<&Bytes>) -> bool {
        let end = end.map_or(RangeEnd::Open, |end| RangeEnd::Before(end.clone()));
        let keys = KeyRange { start: start.clone(), end };
        self.is_root || self.in_space(space).of_verb(verb).contain(&keys)
    }

    pub fn may_all(&self, verb: DataVerb, space: u32) -> bool {
        self.may_range(verb, space, &Bytes::new(), None)
    }

    /// Whether the user has any right in the namespace.
    pub fn may_see(&self, space: u32) -> bool {
        let SpaceRights { read, write, .. } = self.in_space(space);
        self.is_root || !read.is_empty() || !write.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord::{DataRange, PolicyUser};

    fn policy(permissions: &[(&str, &'static str, DataAccess)]) -> Policy {
        let permission = |(namespace, prefix, access): &(&str, &'static str, DataAccess)| DataPermission {
            range: DataRange {
                namespace: (*namespace).to_owned(),
                prefix: Bytes::from_static(prefix.as_bytes()),
            },
            access: *access,
        };
        let mut policy = Policy { enabled: true, revision: 7, ..Policy::default() };
        policy.roles.insert("clerk".into(), permissions.iter().map(permission).collect());
        let user = |role: &str| PolicyUser { epoch: 1, roles: BTreeSet::from([role.into()]) };
        policy.users.insert("ann".into(), user("clerk"));
        policy.users.insert("root".into(), user("root"));
        policy
    }

    #[test]
    fn a_prefix_permits_the_keys_that_begin_with_it_and_no_others() {
        let policy =
            policy(&[("shop", "orders/", DataAccess::ReadWrite), ("shop", "log/", DataAccess::Write)]);
        let rights = DataRights::of(&policy, "ann");
        let shop = namespaces::id_of("shop");
        assert!(
            rights.may_key(DataVerb::Write, shop, b"orders/7")
                && rights.may_key(DataVerb::Read, shop, b"orders/")
        );
        assert!(
            !rights.may_key(DataVerb::Read, shop, b"orders")
                && !rights.may_key(DataVerb::Read, shop, b"orders0")
        );
        assert!(
            rights.may_key(DataVerb::Write, shop, b"log/1")
                && !rights.may_key(DataVerb::Read, shop, b"log/1")
        );
        assert!(!rights.may_key(DataVerb::Read, namespaces::id_of("bank"), b"orders/7"));
        let range = |start: &'static str, end: &'static str| {
            let (start, end) = (Bytes::from_static(start.as_bytes()), Bytes::from_static(end.as_bytes()));
            rights.may_range(DataVerb::Read, shop, &start, Some(&end))
        };
        assert!(range("orders/", "orders0") && range("orders/a", "orders/b"));
        assert!(!range("orders/", "orders1") && !range("a", "z") && !rights.may_all(DataVerb::Read, shop));
        assert!(rights.may_see(shop) && !rights.may_see(namespaces::id_of("bank")));
        assert!(!rights.may_all(DataVerb::Admin, shop));
    }

    #[test]
    fn every_namespace_adds_to_what_one_has() {
        let policy = policy(&[("*", "a", DataAccess::Read), ("shop", "b", DataAccess::Admin)]);
        let rights = DataRights::of(&policy, "ann");
        let (shop, bank) = (namespaces::id_of("shop"), namespaces::id_of("bank"));
        assert!(rights.may_key(DataVerb::Read, shop, b"a") && rights.may_key(DataVerb::Read, bank, b"a"));
        assert!(rights.may_key(DataVerb::Write, shop, b"b") && !rights.may_key(DataVerb::Read, bank, b"b"));
        assert!(!rights.may_all(DataVerb::Admin, shop), "it is for one prefix");
        let all = self::policy(&[("shop", "", DataAccess::Admin)]);
        assert!(DataRights::of(&all, "ann").may_all(DataVerb::Admin, shop));
    }

    #[test]
    fn root_may_everything_and_a_stranger_nothing() {
        let policy = policy(&[]);
        assert!(DataRights::of(&policy, "root").may_all(DataVerb::Admin, 7));
        for user in ["ann", "unknown"] {
            let rights = DataRights::of(&policy, user);
            assert!(!rights.is_root() && !rights.may_see(7) && !rights.may_key(DataVerb::Read, 7, b"a"));
        }
    }
}
