//! Whether a history of one key could have happened one after the other: reads, writes, and replacements under the
//! condition that a certain value is there. Every value is written once. What was left open may have happened at any time
//! since it began, or never. The search tries whatever may come next and forgets nothing that led nowhere.

use std::collections::BTreeSet;

#[derive(Clone, Debug)]
pub enum Deed {
    Read,
    /// None deletes.
    Write(Option<String>),
    /// The new value, if this one is there; none for nothing.
    Replace(Option<String>, String),
}

#[derive(Clone, Debug)]
enum Told {
    /// Shown by a read, or by a replacement that failed.
    Saw(Option<String>),
    Done,
    /// Nothing.
    Open,
}

#[derive(Clone, Debug)]
pub struct Entry {
    deed: Deed,
    from: u64,
    to: u64,
    told: Told,
    failed: bool,
}

impl Entry {
    pub fn begun(deed: Deed, from: u64) -> Entry {
        Entry { deed, from, to: u64::MAX, told: Told::Open, failed: false }
    }

    pub fn ended(&mut self, to: u64, saw: Option<String>) {
        (self.to, self.told) = (to, Told::Saw(saw));
    }

    pub fn done(&mut self, to: u64) {
        (self.to, self.told) = (to, Told::Done);
    }

    pub fn failed(&mut self, to: u64, saw: Option<String>) {
        self.ended(to, saw);
        self.failed = true;
    }

    pub fn open(&mut self) {
        (self.to, self.told) = (u64::MAX, Told::Open);
    }

    /// What is there after it, if it may come now.
    fn step(&self, now: &Option<String>) -> Option<Option<String>> {
        let saw = match &self.told {
            Told::Saw(saw) => Some(saw),
            Told::Done | Told::Open => None,
        };
        match &self.deed {
            _ if self.failed => {
                let Deed::Replace(old, _) = &self.deed else { return None };
                (saw == Some(now) && old != now).then(|| now.clone())
            }
            Deed::Read => saw.is_none_or(|saw| saw == now).then(|| now.clone()),
            Deed::Write(new) => Some(new.clone()),
            Deed::Replace(old, new) => (old == now).then(|| Some(new.clone())),
        }
    }
}

#[derive(Default)]
pub struct History {
    entries: Vec<Entry>,
}

impl History {
    pub fn push(&mut self, entry: Entry) {
        // What was only read, and not told, says nothing.
        if !matches!((&entry.deed, &entry.told), (Deed::Read, Told::Open)) {
            self.entries.push(entry);
        }
    }

    pub fn violation(&self) -> Option<String> {
        let mut entries = self.entries.clone();
        entries.sort_by_key(|entry| entry.from);
        assert!(entries.len() <= 128, "too long to be judged: {}", entries.len());
        let mut tried = BTreeSet::new();
        let all = entries.iter().enumerate().filter(|(_, entry)| !matches!(entry.told, Told::Open));
        let must = all.fold(0u128, |must, (nth, _)| must | 1 << nth);
        let mut furthest = 0;
        let explained = search(&entries, must, 0, &None, &mut tried, &mut furthest);
        (!explained).then(|| {
            let left = entries.iter().enumerate().filter(|(nth, _)| furthest & 1 << nth == 0);
            let left: Vec<_> = left.map(|(_, entry)| entry).collect();
            format!("cannot have happened; unexplained at the furthest: {left:#?}\nall: {entries:#?}")
        })
    }
}

fn search(
    entries: &[Entry],
    must: u128,
    done: u128,
    now: &Option<String>,
    tried: &mut BTreeSet<(u128, Option<String>)>,
    furthest: &mut u128,
) -> bool {
    if done & must == must {
        return true;
    }
    if !tried.insert((done, now.clone())) {
        return false;
    }
    if (done & must).count_ones() > (*furthest & must).count_ones() {
        *furthest = done;
    }
    let left = || entries.iter().enumerate().filter(|(nth, _)| done & 1 << nth == 0);
    let first_end = left().map(|(_, entry)| entry.to).min().unwrap_or(u64::MAX);
    let may_come = left().filter(|(_, entry)| entry.from <= first_end);
    may_come.into_iter().any(|(nth, entry)| {
        let next = entry.step(now);
        next.is_some_and(|next| search(entries, must, done | 1 << nth, &next, tried, furthest))
    })
}

#[test]
fn what_cannot_have_happened_is_noticed() {
    let value = |text: &str| Some(text.to_owned());
    let entry = |deed, from, to| {
        let mut entry = Entry::begun(deed, from);
        entry.done(to);
        entry
    };
    let read = |from, to, saw: Option<String>| {
        let mut entry = Entry::begun(Deed::Read, from);
        entry.ended(to, saw);
        entry
    };
    let judge = |entries: Vec<Entry>| History { entries }.violation().is_none();
    let create = |new: &str, from, to| entry(Deed::Replace(None, new.into()), from, to);
    assert!(judge(vec![create("a", 0, 5), read(1, 2, None), read(3, 4, value("a"))]));
    assert!(!judge(vec![create("a", 0, 5), create("b", 0, 5)]), "two winners");
    assert!(!judge(vec![entry(Deed::Write(value("a")), 0, 1), read(2, 3, None)]), "a stale read");
    let mut failed = Entry::begun(Deed::Replace(None, "c".into()), 2);
    failed.failed(3, value("a"));
    assert!(judge(vec![create("a", 0, 1), failed.clone()]));
    assert!(!judge(vec![failed]), "a conflict with nothing");
    let open = Entry::begun(Deed::Write(value("o")), 0);
    assert!(judge(vec![open.clone(), read(1, 2, None), read(8, 9, value("o"))]), "it may come late");
    assert!(!judge(vec![open, read(1, 2, value("o")), read(3, 4, None)]), "and not be undone");
}
