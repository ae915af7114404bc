//! What is left of the past when its values are compacted, when it goes, and that it knows its time.

use crate::world::{World, single};
use base::{Revision, Table};
use coord::{Command, Compact, CompactionState, HistoryWindow, history_of};

const ALL: HistoryWindow = HistoryWindow { millis: i64::MAX, rows_max: u64::MAX };

fn world(window: HistoryWindow) -> World {
    let mut world = World::new();
    world.window = window;
    world
}

fn mark(world: &mut World, millis: i64) {
    world.command(Command::TimeMark { millis }).0.expect("time always passes");
}

fn compact(world: &mut World, revision: i64) {
    let command = Command::Compact(Compact { revision: Revision(revision), physical: false });
    world.command(command).0.expect("the revision is there");
    while world.state.is_sweeping() {
        world.sweep(1);
        world.reload();
    }
}

/// Revision, whether it was a put, and when.
fn history(world: &World, key: &str) -> Vec<(i64, bool, Option<i64>)> {
    let (all, more) = history_of(&world.store, key.as_bytes(), 100).expect("the rows are whole");
    assert!(!more);
    all.iter().map(|past| (past.revision.0, past.put.is_some(), past.millis)).collect()
}

/// `a` is put, put, deleted and put again; `ba` and `b` change in between.
fn eventful(window: HistoryWindow) -> World {
    let mut world = world(window);
    world.put("a", "2");
    mark(&mut world, 1_000);
    world.put("a", "3");
    world.put("ba", "4");
    mark(&mut world, 2_000);
    world.delete(single("a"));
    mark(&mut world, 1_500);
    world.put("a", "6");
    world.put("b", "7");
    world
}

#[test]
fn a_key_keeps_its_history_when_its_values_are_gone() {
    let mut world = eventful(ALL);
    let before = history(&world, "a");
    assert_eq!(
        before,
        [(2, true, Some(1_000)), (3, true, Some(2_000)), (5, false, Some(2_000)), (6, true, None)]
    );
    compact(&mut world, 7);
    assert_eq!(history(&world, "a"), before, "times do not go back, and the last is not known yet");
    assert_eq!(history(&world, "ba"), [(4, true, Some(2_000))]);
    assert_eq!(world.store.tables[&Table::Versions].len(), 3, "one value for each key");
    assert_eq!(world.state.history_rows(), 3);
    mark(&mut world, 9_000);
    assert_eq!(history(&world, "a")[3], (6, true, Some(9_000)));
}

#[test]
fn a_change_tells_when_its_value_was_compacted() {
    use CompactionState::{Compacted, Readable};
    let mut world = eventful(ALL);
    let states = |world: &World| {
        let (all, _) = history_of(&world.store, b"a", 100).expect("the rows are whole");
        all.iter().map(|past| past.compacted).collect::<Vec<_>>()
    };
    assert_eq!(states(&world), [Readable; 4]);
    compact(&mut world, 3);
    assert_eq!(states(&world), [Compacted(None), Readable, Readable, Readable], "not noted yet");
    world.state.note_compaction_time(7_000);
    world.put("c", "8");
    assert_eq!(states(&world)[..2], [Compacted(Some(7_000)), Readable]);
    compact(&mut world, 8);
    world.state.note_compaction_time(6_000);
    world.state.note_compaction_time(9_000);
    world.put("c", "9");
    world.reload();
    let later = Compacted(Some(7_000));
    assert_eq!(states(&world), [later, later, later, Readable], "times do not go back");
}

#[test]
fn without_a_window_nothing_is_left() {
    let mut world = eventful(HistoryWindow::NONE);
    compact(&mut world, 7);
    assert_eq!(history(&world, "a"), [(6, true, None)]);
    assert_eq!(world.state.history_rows(), 0);
}

#[test]
fn what_is_older_than_the_window_goes_and_so_does_what_is_too_much() {
    let mut world = eventful(ALL);
    compact(&mut world, 7);
    mark(&mut world, 2_500);
    world.trim(HistoryWindow { millis: 1_500, rows_max: 100 });
    assert_eq!(
        history(&world, "a"),
        [(3, true, Some(2_000)), (5, false, Some(2_000)), (6, true, Some(2_500))]
    );
    world.trim(HistoryWindow { millis: 1_500, rows_max: 1 });
    assert_eq!(history(&world, "a"), [(5, false, Some(2_000)), (6, true, Some(2_500))]);
    world.trim(HistoryWindow::NONE);
    assert_eq!(history(&world, "a"), [(6, true, None)]);
    assert_eq!(world.state.history_rows(), 0);
    world.reload();
}

#[test]
fn only_the_last_changes_are_told_when_there_are_many() {
    let mut world = eventful(ALL);
    compact(&mut world, 7);
    let (last, more) = history_of(&world.store, b"a", 2).expect("the rows are whole");
    assert_eq!(last.iter().map(|past| past.revision.0).collect::<Vec<_>>(), [5, 6]);
    assert!(more);
}

#[test]
fn nothing_is_marked_twice() {
    let mut world = world(ALL);
    assert!(!world.state.needs_time_mark());
    world.put("a", "2");
    assert!(world.state.needs_time_mark());
    mark(&mut world, 1_000);
    assert!(!world.state.needs_time_mark());
    mark(&mut world, 2_000);
    assert_eq!(world.store.tables[&Table::Clock].len(), 1);
    world.reload();
    assert!(!world.state.needs_time_mark());
}

#[test]
fn a_quota_is_set_and_taken_back() {
    let mut world = world(ALL);
    world.command(Command::Quota(Some(1_000))).0.expect("any quota is accepted");
    world.reload();
    assert_eq!(world.state.quota(), Some(1_000));
    world.command(Command::Quota(None)).0.expect("any quota is accepted");
    world.reload();
    assert_eq!(world.state.quota(), None);
}
