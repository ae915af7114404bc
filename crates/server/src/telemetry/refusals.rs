//! Who was refused: logins, and requests without permission. Refusals go in as they happen; once a second they come out as
//! events, equal ones as one. What a flood of them would take is bounded, and then only counted.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};

/// Different refusals that are told of one second.
const DIFFERENT_MAX: usize = 10;
/// Characters of a name that a client gave.
const NAME_MAX: usize = 64;

/// A request that was not carried out for want of a right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefusedAccess {
    pub kind: RefusalKind,
    /// Empty if it is not known.
    pub user: String,
    pub address: Option<IpAddr>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusalKind {
    Login,
    /// A call, by its name.
    Permission(String),
}

impl RefusalKind {
    /// Whether events of this word say who was refused.
    pub fn is_word_of_refusals(word: &str) -> bool {
        ["login", "denied"].contains(&word)
    }

    /// The word of its events.
    fn word(&self) -> &'static str {
        match self {
            RefusalKind::Login => "login",
            RefusalKind::Permission(_) => "denied",
        }
    }
}

#[derive(Default)]
pub struct Refusals {
    gathered: Mutex<Gathered>,
}

#[derive(Default)]
struct Gathered {
    counts: BTreeMap<RefusedAccess, u64>,
    /// Beyond those that are told.
    others: u64,
}

impl Refusals {
    pub fn note(&self, mut refused: RefusedAccess) {
        refused.user = refused.user.chars().filter(|letter| !letter.is_control()).take(NAME_MAX).collect();
        let mut gathered = self.lock();
        if gathered.counts.len() < DIFFERENT_MAX || gathered.counts.contains_key(&refused) {
            *gathered.counts.entry(refused).or_default() += 1;
        } else {
            gathered.others += 1;
        }
    }

    /// What was refused since the last call, as events: a word and a text.
    pub fn take(&self) -> Vec<(&'static str, String)> {
        let Gathered { counts, others } = std::mem::take(&mut *self.lock());
        let mut told: Vec<_> =
            counts.iter().map(|(refused, count)| (refused.kind.word(), text_of(refused, *count))).collect();
        if others > 0 {
            told.push(("denied", format!("{others} more logins and requests were refused")));
        }
        told
    }

    fn lock(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().expect("no thread panics while it holds the refusals")
    }
}

fn text_of(RefusedAccess { kind, user, address }: &RefusedAccess, count: u64) -> String {
    let times = if count == 1 { String::new() } else { format!(", {count} times") };
    let from = address.map(|address| format!(" from {address}")).unwrap_or_default();
    let user = if user.is_empty() { "a caller without a name" } else { user };
    match kind {
        RefusalKind::Login => format!("a login of {user}{from} was refused{times}"),
        RefusalKind::Permission(call) => format!("{user}{from} may not {call}{times}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(user: &str) -> RefusedAccess {
        let address = Some(IpAddr::from([10, 0, 0, 7]));
        RefusedAccess { kind: RefusalKind::Login, user: user.to_owned(), address }
    }

    #[test]
    fn equal_refusals_of_a_second_are_one_event() {
        let refusals = Refusals::default();
        refusals.note(login("ann"));
        refusals.note(login("ann"));
        let kind = RefusalKind::Permission("PUT /v1/data/{*key}".to_owned());
        refusals.note(RefusedAccess { kind, user: String::new(), address: None });
        let told = refusals.take();
        assert_eq!(
            told,
            [
                ("login", "a login of ann from 10.0.0.7 was refused, 2 times".to_owned()),
                ("denied", "a caller without a name may not PUT /v1/data/{*key}".to_owned()),
            ]
        );
        assert_eq!(refusals.take(), []);
    }

    #[test]
    fn a_flood_is_counted_and_names_are_cut() {
        let refusals = Refusals::default();
        for nth in 0..DIFFERENT_MAX + 5 {
            refusals.note(login(&format!("{nth:02}\n{}", "x".repeat(200))));
        }
        let told = refusals.take();
        assert_eq!(told.len(), DIFFERENT_MAX + 1);
        assert_eq!(told[DIFFERENT_MAX].1, "5 more logins and requests were refused");
        assert!(told.iter().all(|(_, text)| text.len() < 130 && !text.contains('\n')));
    }
}
