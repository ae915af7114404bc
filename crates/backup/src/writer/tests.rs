use super::*;
use crate::manifest::{CoordPart, VERSION};
use crate::{prune, verify};
use std::fs;
use std::path::PathBuf;

struct Place {
    dir: tempfile::TempDir,
    target: Target,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::parse(dir.path().to_str().unwrap()).unwrap();
        Place { dir, target }
    }

    fn file(&self, object: &ObjectRef) -> PathBuf {
        self.dir.path().join(object_path(&object.name))
    }

    async fn writer(&self, ms: u64) -> Writer<'_> {
        Writer::begin(&self.target, None, BackupId::at_ms(ms)).await.unwrap()
    }

    /// A backup of these contents: its objects, and the bytes that it sent.
    async fn save(&self, ms: u64, contents: &[&[u8]]) -> (Vec<ObjectRef>, u64) {
        let mut writer = self.writer(ms).await;
        let mut objects = Vec::new();
        for content in contents {
            objects.push(writer.put(content).await.unwrap());
        }
        let manifest = writer.finish(manifest(ms, objects.clone())).await.unwrap();
        (objects, manifest.sent_bytes)
    }

    async fn flaws(&self) -> usize {
        let reader = Reader::open(&self.target, None, None).await.unwrap();
        verify(&reader, &mut |_| ()).await.unwrap().flaws.len()
    }
}

fn manifest(ms: u64, objects: Vec<ObjectRef>) -> Manifest {
    Manifest {
        version: VERSION,
        id: BackupId::at_ms(ms),
        release: String::new(),
        cluster: String::new(),
        cut_ms: ms,
        finished_ms: ms,
        coord: Some(CoordPart { member: String::new(), revision: 1, bytes: 0, objects }),
        mesh: None,
        sent_bytes: 0,
    }
}

#[tokio::test]
async fn an_object_that_was_cut_is_sent_again_and_a_whole_one_is_not() {
    let place = Place::new();
    let contents: [&[u8]; 2] = [&[1; 5_000], &[2; 5_000]];
    let (objects, _) = place.save(1, &contents).await;
    let whole = fs::read(place.file(&objects[0])).unwrap();
    fs::write(place.file(&objects[0]), &whole[..whole.len() / 2]).unwrap();
    assert_eq!(place.flaws().await, 1);
    let mut writer = place.writer(2).await;
    writer.put(contents[0]).await.unwrap();
    assert_eq!(writer.sent_bytes(), whole.len() as u64);
    writer.put(contents[1]).await.unwrap();
    assert_eq!(writer.sent_bytes(), whole.len() as u64, "the other is there");
    writer.finish(manifest(2, objects)).await.unwrap();
    assert_eq!(place.flaws().await, 0);
}

#[tokio::test]
async fn objects_of_an_interrupted_backup_are_read_before_they_are_relied_on() {
    let place = Place::new();
    let mut writer = place.writer(1).await;
    let good = writer.put(b"good").await.unwrap();
    let bad = writer.put(b"bad").await.unwrap();
    writer.give_up().await.unwrap();
    let mut bytes = fs::read(place.file(&bad)).unwrap();
    bytes[12] ^= 1;
    fs::write(place.file(&bad), bytes).unwrap();
    let mut writer = place.writer(2).await;
    assert_eq!(writer.put(b"good").await.unwrap(), good);
    assert_eq!(writer.sent_bytes(), 0);
    assert_eq!(writer.put(b"bad").await.unwrap(), bad);
    assert_eq!(writer.sent_bytes(), bad.stored_bytes);
    writer.finish(manifest(2, vec![good, bad])).await.unwrap();
    assert_eq!(place.flaws().await, 0);
}

#[tokio::test]
async fn damage_that_keeps_the_length_is_dropped_and_the_next_backup_mends_it() {
    let place = Place::new();
    let (objects, _) = place.save(1, &[b"one", b"two"]).await;
    let mut bytes = fs::read(place.file(&objects[1])).unwrap();
    bytes[12] ^= 1;
    fs::write(place.file(&objects[1]), bytes).unwrap();
    let reader = Reader::open(&place.target, None, None).await.unwrap();
    let found = verify(&reader, &mut |_| ()).await.unwrap();
    assert_eq!(reader.drop_damaged(&found).await.unwrap(), std::slice::from_ref(&objects[1].name));
    assert!(place.file(&objects[0]).exists() && !place.file(&objects[1]).exists());
    place.save(2, &[b"one", b"two"]).await;
    assert_eq!(place.flaws().await, 0);
    assert!(
        verify(&reader, &mut |_| ()).await.unwrap().flaws.is_empty(),
        "the first one is whole again, too"
    );
}

#[tokio::test]
async fn a_backup_and_a_pruning_exclude_each_other_and_what_was_left_behind_hinders_neither() {
    let place = Place::new();
    place.save(1, &[b"one"]).await;
    let writer = place.writer(2).await;
    assert!(matches!(prune(&place.target, None, 1, false).await, Err(Error::UnderWay { .. })));
    assert_eq!(place.target.list(PRUNING).await.unwrap(), [], "the refused pruning is over");
    writer.give_up().await.unwrap();
    let marker = |folder: &str| format!("{folder}/{}", BackupId::at_ms(3));
    place.target.put(&marker(PRUNING), crate::marker::now_ms().to_string().into()).await.unwrap();
    let refused = Writer::begin(&place.target, None, BackupId::at_ms(4)).await;
    assert!(matches!(refused.err(), Some(Error::BeingPruned { .. })));
    assert_eq!(place.target.list(RUNNING).await.unwrap(), []);
    for folder in [PRUNING, RUNNING] {
        place.target.put(&marker(folder), b"1000".to_vec()).await.unwrap();
    }
    place.save(5, &[b"two"]).await;
    let pruned = prune(&place.target, None, 1, false).await.unwrap();
    assert_eq!((pruned.backups.len(), pruned.objects, pruned.kept), (1, 1, 1));
    for folder in [PRUNING, RUNNING] {
        assert_eq!(place.target.list(folder).await.unwrap(), [], "what was left behind is gone");
    }
    assert_eq!(place.flaws().await, 0);
}
