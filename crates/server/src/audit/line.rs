//! The lines of the audit log: an entry and its time in, one object of JSON and a line feed out. What a caller has chosen,
//! as a key or a name, is escaped; a key that is no text is written in hexadecimal digits. docs/formats/audit-log.md
//! lists the fields.

use super::entry::{AuditClass, AuditEntry, AuditOutcome, IdentifiedBy, Keys, Text};
use base::date::UtcTime;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

pub fn of_entry(at: SystemTime, node: &str, entry: &AuditEntry) -> String {
    let mut line = begin(at, node, "request");
    let class = match entry.class {
        AuditClass::Read => "read",
        AuditClass::Change => "change",
        AuditClass::Login => "login",
    };
    field(&mut line, "class", class);
    field(&mut line, "protocol", entry.protocol);
    field(&mut line, "operation", &entry.operation);
    if let Some(address) = entry.address {
        field(&mut line, "address", &address.to_string());
    }
    match &entry.user {
        Some(user) => field(&mut line, "user", user),
        None => line.push_str(",\"user\":null"),
    }
    if let Some(identified_by) = entry.identified_by {
        let word = match identified_by {
            IdentifiedBy::Token => "token",
            IdentifiedBy::Password => "password",
            IdentifiedBy::Certificate => "certificate",
            IdentifiedBy::Cluster => "cluster",
        };
        field(&mut line, "identified_by", word);
    }
    if let Some(namespace) = &entry.namespace {
        field(&mut line, "namespace", namespace);
    }
    if !entry.keys.is_empty() {
        line.push_str(",\"keys\":[");
        for (number, keys) in entry.keys.iter().enumerate() {
            if number > 0 {
                line.push(',');
            }
            push_keys(&mut line, keys);
        }
        line.push(']');
    }
    if entry.more_keys > 0 {
        number(&mut line, "more_keys", entry.more_keys as u64);
    }
    if !entry.targets.is_empty() {
        line.push_str(",\"target\":{");
        for (number, (kind, name)) in entry.targets.iter().enumerate() {
            if number > 0 {
                line.push(',');
            }
            quote(&mut line, kind);
            line.push(':');
            quote(&mut line, name);
        }
        line.push('}');
    }
    let outcome = match entry.outcome {
        AuditOutcome::Ok => "ok",
        AuditOutcome::Refused => "refused",
        AuditOutcome::Failed => "failed",
        AuditOutcome::Unknown => "unknown",
    };
    field(&mut line, "outcome", outcome);
    field(&mut line, "code", &entry.code);
    if let Some(trace) = &entry.trace {
        field(&mut line, "trace_id", trace);
    }
    end(line)
}

pub fn of_start(at: SystemTime, node: &str, with_reads: bool) -> String {
    let mut line = begin(at, node, "start");
    field(&mut line, "version", env!("CARGO_PKG_VERSION"));
    let _ = write!(line, ",\"reads\":{with_reads}");
    end(line)
}

pub fn of_stop(at: SystemTime, node: &str) -> String {
    end(begin(at, node, "stop"))
}

pub fn of_dropped(at: SystemTime, node: &str, dropped: u64) -> String {
    let mut line = begin(at, node, "dropped");
    number(&mut line, "dropped", dropped);
    end(line)
}

fn begin(at: SystemTime, node: &str, event: &str) -> String {
    let mut line = format!("{{\"time\":\"{}\"", time(at));
    field(&mut line, "node", node);
    field(&mut line, "event", event);
    line
}

fn end(mut line: String) -> String {
    line.push_str("}\n");
    line
}

fn field(line: &mut String, name: &str, value: &str) {
    let _ = write!(line, ",\"{name}\":");
    quote(line, value);
}

fn number(line: &mut String, name: &str, value: u64) {
    let _ = write!(line, ",\"{name}\":{value}");
}

fn push_keys(line: &mut String, keys: &Keys) {
    line.push('{');
    match keys {
        Keys::One(key) => push_text(line, "key", key),
        Keys::Range(start, end) => {
            push_text(line, "from", start);
            if let Some(end) = end {
                line.push(',');
                push_text(line, "to", end);
            }
        }
    }
    line.push('}');
}

/// `"key":"…"`, or `"key_hex":"…"` for what is no text; with `"key_cut":true` if it is longer.
fn push_text(line: &mut String, name: &str, text: &Text) {
    let whole = match std::str::from_utf8(&text.bytes) {
        Ok(whole) => Some(whole),
        // A letter that was cut in two is left out.
        Err(error) if text.is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&text.bytes[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    match whole {
        Some(whole) => {
            let _ = write!(line, "\"{name}\":");
            quote(line, whole);
        }
        None => {
            let _ = write!(line, "\"{name}_hex\":\"");
            for byte in &text.bytes {
                let _ = write!(line, "{byte:02x}");
            }
            line.push('"');
        }
    }
    if text.is_cut {
        let _ = write!(line, ",\"{name}_cut\":true");
    }
}

/// A string of JSON. Control characters, also those beyond ASCII, are escaped: a terminal that shows the log obeys none.
fn quote(line: &mut String, text: &str) {
    line.push('"');
    for letter in text.chars() {
        match letter {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            letter if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}') => {
                let _ = write!(line, "\\u{:04x}", u32::from(letter));
            }
            letter => line.push(letter),
        }
    }
    line.push('"');
}

/// As RFC 3339 writes it, in UTC and with microseconds.
fn time(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:06}Z", UtcTime::of(since.as_secs()), since.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_written_as_rfc_3339() {
        let at = |seconds: u64| time(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59.000000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000000Z");
        assert_eq!(at(1_709_251_199), "2024-02-29T23:59:59.000000Z");
        assert_eq!(at(4_102_444_800), "2100-01-01T00:00:00.000000Z");
        assert_eq!(time(UNIX_EPOCH + Duration::from_micros(1_500_000)), "1970-01-01T00:00:01.500000Z");
    }

    #[test]
    fn a_name_that_looks_like_another_line_stays_a_name() {
        let mut entry = AuditEntry::new(AuditClass::Change, "grpc", "etcdserverpb.KV/Put");
        entry.add_key(b"a\"}\n{\"event\":\"stop\"\x1b[2J");
        entry.add_key(&[0xff, 0x00]);
        entry.add_key("\u{e9}".repeat(400).as_bytes());
        entry.add_keys_from(b"b", Some(b"c"));
        entry.add_keys_from(b"d", None);
        entry.add_target("user", "ann\r\n");
        entry.end(AuditOutcome::Refused, "PermissionDenied");
        let line = of_entry(UNIX_EPOCH, "n1", &entry);
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.chars().all(|letter| !letter.is_control() || letter == '\n'), "{line}");
        let cut = format!("{{\"key\":\"{}\",\"key_cut\":true}}", "\u{e9}".repeat(256));
        let keys = format!(
            "\"keys\":[{{\"key\":\"a\\\"}}\\n{{\\\"event\\\":\\\"stop\\\"\\u001b[2J\"}},{{\"key_hex\":\"ff00\"}},{cut},\
             {{\"from\":\"b\",\"to\":\"c\"}},{{\"from\":\"d\"}}]"
        );
        assert!(line.contains(&keys), "{line}");
        assert!(
            line.contains("\"user\":null,") && line.contains("\"target\":{\"user\":\"ann\\r\\n\"}"),
            "{line}"
        );
        assert!(line.ends_with(",\"outcome\":\"refused\",\"code\":\"PermissionDenied\"}\n"), "{line}");
    }
}
