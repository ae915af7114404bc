use super::*;
use std::io::Write;
use std::sync::Mutex;
use std::sync::mpsc::Receiver;

/// Takes nothing until its gate is opened.
struct Gated {
    gate: Option<Receiver<()>>,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Write for Gated {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(gate) = self.gate.take() {
            let _ = gate.recv();
        }
        self.written.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn entry(class: AuditClass, outcome: AuditOutcome) -> AuditEntry {
    let mut entry = AuditEntry::new(class, "grpc", "etcdserverpb.KV/Put");
    entry.add_key(b"k");
    entry.end(outcome, "OK");
    entry
}

fn text(written: &Mutex<Vec<u8>>) -> String {
    String::from_utf8(written.lock().unwrap().clone()).unwrap()
}

#[test]
fn a_file_that_takes_nothing_holds_no_request_and_the_loss_is_told() {
    let (open, gate) = sync_channel(1);
    let written = Arc::default();
    let sink = Sink::Test(Box::new(Gated { gate: Some(gate), written: Arc::clone(&written) }));
    let audit = Audit::start_with(sink, false, "n1").unwrap();
    let asked = ENTRIES_MAX as u64 + 100;
    for _ in 0..asked {
        audit.record(entry(AuditClass::Change, AuditOutcome::Ok));
    }
    let dropped = audit.0.counters.dropped.get();
    assert!((100..=101).contains(&dropped), "{dropped}: the writer may hold the first line");
    open.send(()).unwrap();
    audit.stop();
    let text = text(&written);
    assert_eq!(text.matches("\"event\":\"request\"").count() as u64, asked - dropped);
    assert!(text.contains(&format!("\"event\":\"dropped\",\"dropped\":{dropped}}}")), "{}", text.len());
    assert!(text.starts_with("{\"time\":\"") && text.ends_with("\"event\":\"stop\"}\n"));
    assert_eq!(audit.0.counters.written.get(), asked - dropped);
}

#[test]
fn reads_are_recorded_when_they_are_wanted_or_refused() {
    for (with_reads, lines) in [(false, 3), (true, 4)] {
        let written = Arc::default();
        let sink = Sink::Test(Box::new(Gated { gate: None, written: Arc::clone(&written) }));
        let audit = Audit::start_with(sink, with_reads, "n1").unwrap();
        audit.record(entry(AuditClass::Read, AuditOutcome::Ok));
        audit.record(entry(AuditClass::Read, AuditOutcome::Refused));
        audit.record(entry(AuditClass::Change, AuditOutcome::Unknown));
        audit.record(entry(AuditClass::Login, AuditOutcome::Ok));
        audit.stop();
        assert_eq!(text(&written).matches("\"event\":\"request\"").count(), lines);
    }
}

#[test]
fn a_planted_bug_is_found() {
    let test = reads_are_recorded_when_they_are_wanted_or_refused;
    assert!(base::mutant::is_caught(Mutant::RefusalNotRecorded, test));
}

#[test]
fn an_entry_takes_little_memory_whatever_is_asked() {
    let mut entry = AuditEntry::new(AuditClass::Change, "grpc", "etcdserverpb.KV/Txn");
    for number in 0..1_000_u32 {
        entry.add_key(&[number.to_be_bytes().as_slice(), &[b'k'; 10_000]].concat());
        entry.add_target("user", &"\u{e9}".repeat(10_000));
    }
    assert_eq!((entry.keys.len(), entry.more_keys, entry.targets.len()), (16, 984, 1));
    entry.add_key(b"k");
    let line = line::of_entry(SystemTime::UNIX_EPOCH, "n1", &entry);
    assert!(line.len() < 32 * 1024, "{}", line.len());
}
