//! Users, roles and permissions by themselves: the permissions after each command, their rows and their bytes.

use super::*;
use base::codec::Reader;
use base::{FormatLevel, ReadView, Table};
use std::ops::Bound;

fn auth_with_root() -> Auth {
    let mut auth = Auth::default();
    run(&mut auth, AuthCommand::UserAdd { user: ROOT.into(), password: Some("hash".into()) });
    run(&mut auth, AuthCommand::UserGrantRole { user: ROOT.into(), role: ROOT.into() });
    run(&mut auth, AuthCommand::Enable);
    auth
}

/// A user `ann` with the role `clerk`, who may read and write `a` to `c` and read `c` to `d`.
fn auth_with_clerk() -> Auth {
    let mut auth = auth_with_root();
    run(&mut auth, AuthCommand::RoleAdd { role: "clerk".into() });
    grant(&mut auth, "clerk", "a", "c", Access::ReadWrite);
    grant(&mut auth, "clerk", "c", "d", Access::Read);
    run(&mut auth, AuthCommand::UserAdd { user: "ann".into(), password: None });
    run(&mut auth, AuthCommand::UserGrantRole { user: "ann".into(), role: "clerk".into() });
    auth
}

fn attempt(auth: &mut Auth, command: AuthCommand) -> Result<AuthReply, Code> {
    auth.run(Index(7), &command, FormatLevel::NEWEST)
}

fn run(auth: &mut Auth, command: AuthCommand) -> AuthReply {
    attempt(auth, command).unwrap()
}

fn keys(start: &'static str, end: &'static str) -> KeyRange {
    KeyRange::from_wire(start.into(), end.into())
}

fn grant(auth: &mut Auth, role: &str, start: &'static str, end: &'static str, access: Access) {
    let permission = Permission { keys: keys(start, end), access };
    run(auth, AuthCommand::RoleGrantPermission { role: role.into(), permission });
}

fn user(auth: &Auth, name: &str) -> Caller {
    Caller::User { name: name.into(), revision: auth.revision() }
}

#[test]
fn auth_is_enabled_only_with_a_root_that_has_its_role() {
    let mut auth = Auth::default();
    assert_eq!(attempt(&mut auth, AuthCommand::Enable), Err(Code::RootUserMissing));
    run(&mut auth, AuthCommand::UserAdd { user: ROOT.into(), password: None });
    assert_eq!(attempt(&mut auth, AuthCommand::Enable), Err(Code::RootRoleMissing));
    run(&mut auth, AuthCommand::UserGrantRole { user: ROOT.into(), role: ROOT.into() });
    let before = auth.revision();
    run(&mut auth, AuthCommand::Enable);
    assert_eq!((auth.is_enabled(), auth.revision()), (true, before));
    for command in [
        AuthCommand::UserDelete { user: ROOT.into() },
        AuthCommand::RoleDelete { role: ROOT.into() },
        AuthCommand::UserRevokeRole { user: ROOT.into(), role: ROOT.into() },
    ] {
        assert_eq!(attempt(&mut auth, command), Err(Code::InvalidAuthManagement));
    }
    run(&mut auth, AuthCommand::Disable);
    assert_eq!((auth.is_enabled(), auth.revision()), (false, before + 1));
}

#[test]
fn a_user_may_do_what_its_roles_permit_together() {
    let auth = auth_with_clerk();
    let ann = user(&auth, "ann");
    let rights = auth.rights(&ann).unwrap();
    assert_eq!(rights.read(&keys("a", "d")), Ok(()));
    assert_eq!(rights.write(&keys("a", "c")), Ok(()));
    assert_eq!(rights.write(&keys("b", "cc")), Err(Code::PermissionDenied));
    assert_eq!(rights.read(&keys("a", "\0")), Err(Code::PermissionDenied));
    assert_eq!(rights.root(), Err(Code::PermissionDenied));
    let root = user(&auth, ROOT);
    let rights = auth.rights(&root).unwrap();
    assert_eq!((rights.root(), rights.write(&keys("\0", "\0"))), (Ok(()), Ok(())));
}

#[test]
fn anonymous_and_outdated_callers_may_do_nothing() {
    let mut auth = auth_with_clerk();
    let ann = user(&auth, "ann");
    assert_eq!(auth.rights(&Caller::Anonymous).err(), Some(Code::UserEmpty));
    assert!(auth.rights(&Caller::Member).is_ok());
    run(&mut auth, AuthCommand::RoleAdd { role: "other".into() });
    assert_eq!(auth.rights(&ann).err(), Some(Code::AuthOldRevision));
    assert!(auth.rights(&user(&auth, "ann")).is_ok());
    assert_eq!(auth.rights(&user(&auth, "ben")).err(), Some(Code::PermissionDenied));
    run(&mut auth, AuthCommand::Disable);
    assert!(auth.rights(&Caller::Anonymous).is_ok_and(|rights| rights.root().is_ok()));
}

#[test]
fn what_is_revoked_is_gone_whichever_way_it_was_revoked() {
    let revocations = [
        AuthCommand::RoleRevokePermission { role: "clerk".into(), keys: keys("a", "c") },
        AuthCommand::UserRevokeRole { user: "ann".into(), role: "clerk".into() },
        AuthCommand::RoleDelete { role: "clerk".into() },
    ];
    for revocation in revocations {
        let mut auth = auth_with_clerk();
        run(&mut auth, revocation.clone());
        let ann = user(&auth, "ann");
        assert_eq!(auth.rights(&ann).unwrap().write(&keys("a", "")), Err(Code::PermissionDenied));
        // A role of the same name that is added later is another.
        if attempt(&mut auth, AuthCommand::RoleAdd { role: "clerk".into() }).is_ok() {
            grant(&mut auth, "clerk", "a", "c", Access::ReadWrite);
            let ann = user(&auth, "ann");
            assert_eq!(auth.rights(&ann).unwrap().write(&keys("a", "")), Err(Code::PermissionDenied));
        }
    }
}

#[test]
fn a_permission_for_the_same_keys_is_replaced() {
    let mut auth = auth_with_clerk();
    grant(&mut auth, "clerk", "a", "c", Access::Read);
    let ann = user(&auth, "ann");
    assert_eq!(auth.rights(&ann).unwrap().write(&keys("a", "")), Err(Code::PermissionDenied));
    let AuthReply::Permissions(list) = run(&mut auth, AuthCommand::RoleGet { role: "clerk".into() }) else {
        panic!("a role is shown by its permissions");
    };
    assert_eq!(list.len(), 2);
}

#[test]
fn a_token_is_given_for_the_password_of_now() {
    let mut auth = auth_with_root();
    let revision = auth.revision();
    let ask = |user: &str, revision| AuthCommand::Authenticate {
        user: user.into(),
        revision,
        secret: "secret".into(),
    };
    assert_eq!(run(&mut auth, ask(ROOT, revision)), AuthReply::Token("secret.7".into()));
    assert_eq!(attempt(&mut auth, ask("ben", revision)), Err(Code::AuthFailed));
    let change = AuthCommand::UserChangePassword { user: ROOT.into(), password: "new".into() };
    run(&mut auth, change);
    assert_eq!(attempt(&mut auth, ask(ROOT, revision)), Err(Code::AuthOldRevision));
    run(&mut auth, AuthCommand::UserAdd { user: "robot".into(), password: None });
    assert_eq!(auth.password_of("robot"), Err(Code::NoPasswordUser));
    run(&mut auth, AuthCommand::Disable);
    assert_eq!(attempt(&mut auth, ask(ROOT, revision)), Err(Code::AuthNotEnabled));
}

#[test]
fn names_are_bounded() {
    let mut auth = Auth::default();
    let long = "n".repeat(AUTH_NAME_BYTES_MAX + 1);
    let add = |user: &str| AuthCommand::UserAdd { user: user.into(), password: None };
    assert_eq!(attempt(&mut auth, add(&long)), Err(Code::AuthFull));
    assert_eq!(attempt(&mut auth, add("")), Err(Code::UserEmpty));
    assert_eq!(attempt(&mut auth, AuthCommand::RoleAdd { role: long }), Err(Code::AuthFull));
}

/// Just enough of a store.
#[derive(Default)]
struct Rows(BTreeMap<Vec<u8>, Vec<u8>>);

impl Rows {
    fn take(&mut self, auth: &mut Auth) {
        auth.take_rows(&mut |table, key: &[u8], value: Option<&[u8]>| {
            assert_eq!(table, Table::Auth);
            match value {
                Some(value) => drop(self.0.insert(key.to_vec(), value.to_vec())),
                None => drop(self.0.remove(key)),
            }
        });
    }
}

impl ReadView for Rows {
    fn get(&self, _: Table, key: &[u8]) -> Option<Bytes> {
        self.0.get(key).map(|value| value.clone().into())
    }

    fn scan(&self, _: Table, _: Bound<&[u8]>, _: Bound<&[u8]>, visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        let _ = self.0.iter().all(|(key, value)| visit(key, value));
    }
}

#[test]
fn what_is_written_is_read_back() {
    let mut auth = auth_with_clerk();
    let mut rows = Rows::default();
    rows.take(&mut auth);
    run(&mut auth, AuthCommand::UserDelete { user: "ann".into() });
    run(&mut auth, AuthCommand::UserAdd { user: "ben".into(), password: Some("hash".into()) });
    run(&mut auth, AuthCommand::UserGrantRole { user: "ben".into(), role: "clerk".into() });
    rows.take(&mut auth);
    let read = Auth::load(&rows).unwrap();
    assert_eq!((read.enabled, read.revision), (auth.enabled, auth.revision));
    assert_eq!((&read.users, &read.roles, &read.grants), (&auth.users, &auth.roles, &auth.grants));
    assert!(rows.0.values().next().is_some());
    for (key, value) in rows.0.clone() {
        let mut damaged = Rows(rows.0.clone());
        damaged.0.insert(key.clone(), value[..value.len() - 1].to_vec());
        assert!(Auth::load(&damaged).is_err(), "a cut row is not read: {key:?}");
    }
}

#[test]
fn commands_survive_a_round_trip() {
    let permission = Permission { keys: keys("a", "\0"), access: Access::Write };
    let (user, role) = (|| "ann".to_owned(), || "clerk".to_owned());
    for command in [
        AuthCommand::Enable,
        AuthCommand::Disable,
        AuthCommand::Status,
        AuthCommand::Authenticate { user: user(), revision: 300, secret: "s".into() },
        AuthCommand::UserAdd { user: user(), password: None },
        AuthCommand::UserAdd { user: user(), password: Some(Bytes::new()) },
        AuthCommand::UserDelete { user: user() },
        AuthCommand::UserChangePassword { user: user(), password: "hash".into() },
        AuthCommand::UserGrantRole { user: user(), role: role() },
        AuthCommand::UserRevokeRole { user: user(), role: role() },
        AuthCommand::UserGet { user: user() },
        AuthCommand::UserList,
        AuthCommand::RoleAdd { role: role() },
        AuthCommand::RoleDelete { role: role() },
        AuthCommand::RoleGrantPermission { role: role(), permission },
        AuthCommand::RoleRevokePermission { role: role(), keys: keys("a", "") },
        AuthCommand::RoleGet { role: role() },
        AuthCommand::RoleList,
    ] {
        let mut bytes = Vec::new();
        command.encode(&mut bytes);
        for cut in 0..bytes.len() {
            let cut = Bytes::copy_from_slice(&bytes[..cut]);
            assert_eq!(AuthCommand::decode(&mut Reader::new(cut)), None, "{command:?}");
        }
        let mut reader = Reader::new(bytes.into());
        assert_eq!(AuthCommand::decode(&mut reader), Some(command));
        assert!(reader.is_empty());
    }
}

/// What users may do is kept up to date change by change; it is what it would be if it were worked out from nothing.
#[test]
fn what_users_may_do_follows_every_change() {
    for seed in 0..40 {
        let mut rng = base::Rng::new(seed);
        let mut auth = auth_with_root();
        let name = |rng: &mut base::Rng, kind: &str| format!("{kind}{}", rng.between(0, 4));
        let range = |rng: &mut base::Rng| {
            let mut key = || Bytes::from(format!("{:02}", rng.between(0, 40)));
            KeyRange::from_wire(key(), if key() < "15" { Bytes::new() } else { key() })
        };
        for _ in 0..400 {
            let (user, role, keys) = (name(&mut rng, "u"), name(&mut rng, "r"), range(&mut rng));
            let access = Access::from_number(rng.between(0, 3) as u8).unwrap();
            let command = match rng.between(0, 20) {
                0 => AuthCommand::UserAdd { user, password: None },
                1 => AuthCommand::UserDelete { user },
                2 => AuthCommand::RoleAdd { role },
                3 => AuthCommand::RoleDelete { role },
                4..7 => AuthCommand::UserGrantRole { user, role },
                7 => AuthCommand::UserRevokeRole { user, role },
                8..15 => AuthCommand::RoleGrantPermission { role, permission: Permission { keys, access } },
                _ => {
                    let known = auth.roles.get(role.as_str()).and_then(|role| role.permissions.keys().next());
                    let keys = known.cloned().unwrap_or(keys);
                    AuthCommand::RoleRevokePermission { role, keys }
                }
            };
            // One that is refused changes nothing.
            let _ = attempt(&mut auth, command);
            let kept = auth.grants.clone();
            for name in auth.users.keys().cloned().collect::<Vec<_>>() {
                auth.regrant(&name);
            }
            assert_eq!(auth.grants, kept, "seed {seed}");
        }
    }
}

/// A question and a change cost what a search costs: with a scan this test would take hours.
#[test]
fn a_million_ranges_are_searched_and_not_scanned() {
    let mut auth = auth_with_root();
    run(&mut auth, AuthCommand::UserAdd { user: "ann".into(), password: None });
    let key = |role: u32, nth: u32| KeyRange::single(Bytes::from(format!("{role:04}/{nth:04}")));
    for role in 0..1_000 {
        let permissions = (0..1_000).map(|nth| (key(role, nth), Access::ReadWrite)).collect();
        let name = format!("role{role}");
        auth.roles.insert(name.as_str().into(), Arc::new(Role { permissions, ..Role::default() }));
        run(&mut auth, AuthCommand::UserGrantRole { user: "ann".into(), role: name });
    }
    let mut shown = Vec::new();
    for nth in 0..1_000 {
        let rights = auth.rights(&user(&auth, "ann")).unwrap();
        assert_eq!(rights.read(&key(nth, nth)), Ok(()));
        assert_eq!(rights.write(&key(nth, 1_000)), Err(Code::PermissionDenied));
        // As the apply thread shares it with other threads.
        shown.push(auth.clone());
        let (role, keys) = (format!("role{nth}"), key(nth, nth));
        run(&mut auth, AuthCommand::RoleRevokePermission { role: role.clone(), keys });
        assert_eq!(
            auth.rights(&user(&auth, "ann")).unwrap().read(&key(nth, nth)),
            Err(Code::PermissionDenied)
        );
        let permission = Permission { keys: key(nth, 1_000), access: Access::Write };
        run(&mut auth, AuthCommand::RoleGrantPermission { role, permission });
        assert_eq!(auth.rights(&user(&auth, "ann")).unwrap().write(&key(nth, 1_000)), Ok(()));
        shown.truncate(1);
    }
    assert_eq!(shown[0].rights(&user(&shown[0], "ann")).unwrap().read(&key(7, 7)), Ok(()));
}
