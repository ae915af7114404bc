//! One frame of `althing top`: what `/v1/cluster` and `/v1/locks` say goes in, lines of text come out, the same for the same
//! documents. What a node has not told is a dash.

use super::table::columns;
use serde_json::{Map, Value, json};

/// A column, and the figure of a node that it shows.
struct Column {
    head: &'static str,
    show: fn(&Node<'_>) -> String,
}

const COLUMNS: [Column; 17] = [
    Column { head: "NODE", show: |node| node.text("name") },
    Column { head: "ROLE", show: |node| node.role() },
    Column { head: "VERSION", show: |node| node.text("version") },
    Column { head: "PUT/S", show: |node| node.rate("puts_per_second") },
    Column { head: "GET/S", show: |node| node.rate("ranges_per_second") },
    Column { head: "DATA W/S", show: |node| node.rate("data_writes_per_second") },
    Column { head: "DATA R/S", show: |node| node.rate("data_reads_per_second") },
    Column { head: "FSYNC P99", show: |node| node.millis("fsync_p99_ms") },
    Column { head: "APPLY P99", show: |node| node.millis("apply_p99_ms") },
    Column { head: "DATA P99", show: |node| node.millis("data_request_p99_ms") },
    Column { head: "RTT P99", show: |node| node.millis("round_trip_p99_ms") },
    Column { head: "BEHIND", show: |node| node.entries_behind() },
    Column { head: "REGION LAG", show: |node| node.millis("data_lag_ms") },
    Column { head: "WATCHES", show: |node| node.count("watches") },
    Column { head: "CPU", show: |node| node.percent("cpu_percent") },
    Column { head: "SPACE", show: |node| node.space() },
    Column { head: "DISK FREE", show: |node| node.bytes("disk_free_bytes") },
];

/// What `--write-out json` prints: the documents without the samples that charts need.
pub fn document(cluster: &Value, locks: Option<&Value>) -> Value {
    let mut shown = cluster.clone();
    let nodes = shown["nodes"].as_object_mut().into_iter().flat_map(Map::values_mut);
    for node in nodes.filter_map(Value::as_object_mut) {
        node.remove("recent");
    }
    let locks = locks.map(|locks| {
        json!({ "count": locks["count"], "waiters": locks["waiters"], "counted_all": locks["next_page"].is_null() })
    });
    shown["locks"] = locks.into();
    shown
}

pub fn frame(cluster: &Value, locks: Option<&Value>) -> String {
    let committed = numbers(cluster).filter_map(|numbers| numbers["committed"].as_f64()).fold(0.0, f64::max);
    let nodes: Vec<Node<'_>> = cluster["nodes"]
        .as_object()
        .into_iter()
        .flat_map(Map::values)
        .map(|node| Node { node, committed })
        .collect();
    let mut lines = vec![text_of(&cluster["summary"]), totals(cluster, locks)];
    for alarm in cluster["alarms"].as_array().into_iter().flatten() {
        let [kind, node, advice] = ["kind", "node", "advice"].map(|name| text_of(&alarm[name]));
        lines.push(format!("ALARM {kind} of {node}: {advice}"));
    }
    lines.push(String::new());
    let heads: Vec<&str> = COLUMNS.iter().map(|column| column.head).collect();
    let mut rows: Vec<Vec<String>> =
        nodes.iter().map(|node| COLUMNS.iter().map(|column| (column.show)(node)).collect()).collect();
    rows.sort();
    lines.extend(columns(&heads, &rows));
    for node in &nodes {
        if let Some(trouble) = node.node["trouble"].as_str() {
            lines.push(format!(
                "{} does not answer: {trouble}; what is shown of it is old",
                node.text("name")
            ));
        }
    }
    lines.join("\n") + "\n"
}

fn numbers(cluster: &Value) -> impl Iterator<Item = &Value> {
    cluster["nodes"].as_object().into_iter().flat_map(Map::values).map(|node| &node["numbers"])
}

fn totals(cluster: &Value, locks: Option<&Value>) -> String {
    let locks = match locks {
        None => "locks not shown".to_owned(),
        Some(locks) => {
            let more = if locks["next_page"].is_null() { "" } else { " or more" };
            format!("{} locks, {}{more} waiting for one", locks["count"], locks["waiters"])
        }
    };
    let quota = match cluster["quota_bytes"].as_f64() {
        Some(quota) if quota > 0.0 => format!(" of {}", bytes(quota)),
        _ => String::new(),
    };
    format!(
        "revision {}, {} keys, {}{quota} stored, {locks}, {} regions, auth {}",
        cluster["revision"],
        cluster["keys"],
        bytes(cluster["stored_bytes"].as_f64().unwrap_or(0.0)),
        cluster["regions"],
        if cluster["auth"] == true { "on" } else { "off" },
    )
}

struct Node<'a> {
    node: &'a Value,
    /// The highest index that any node knows to be committed.
    committed: f64,
}

impl Node<'_> {
    fn number(&self, name: &str) -> Option<f64> {
        self.node["numbers"][name].as_f64()
    }

    fn shown(&self, name: &str, show: impl Fn(f64) -> String) -> String {
        self.number(name).map_or_else(|| "-".to_owned(), show)
    }

    fn text(&self, name: &str) -> String {
        self.node[name].as_str().unwrap_or("-").to_owned()
    }

    fn role(&self) -> String {
        if self.node["trouble"].is_null() { self.text("role") } else { "away".to_owned() }
    }

    fn rate(&self, name: &str) -> String {
        self.shown(name, |rate| if rate >= 100.0 { format!("{rate:.0}") } else { format!("{rate:.1}") })
    }

    fn millis(&self, name: &str) -> String {
        self.shown(name, |millis| match millis {
            millis if millis >= 10_000.0 => format!("{:.0} s", millis / 1e3),
            millis if millis >= 100.0 => format!("{millis:.0} ms"),
            millis => format!("{millis:.1} ms"),
        })
    }

    fn count(&self, name: &str) -> String {
        self.shown(name, |count| format!("{count:.0}"))
    }

    fn percent(&self, name: &str) -> String {
        self.shown(name, |percent| format!("{percent:.0} %"))
    }

    fn bytes(&self, name: &str) -> String {
        self.shown(name, bytes)
    }

    /// Entries that are committed and not applied here; a node without the coordination store applies none.
    fn entries_behind(&self) -> String {
        if self.node["member"] != true {
            return "-".to_owned();
        }
        self.shown("applied", |applied| format!("{:.0}", (self.committed - applied).max(0.0)))
    }

    /// What the files of both planes take, and how much of the quota the keys.
    fn space(&self) -> String {
        let files = ["store_bytes", "wal_bytes", "data_store_bytes", "data_log_bytes"];
        let known: Vec<f64> = files.iter().filter_map(|name| self.number(name)).collect();
        if known.is_empty() {
            return "-".to_owned();
        }
        let files = bytes(known.iter().sum());
        match (self.number("stored_bytes"), self.number("quota_bytes")) {
            (Some(stored), Some(quota)) if quota > 0.0 => {
                format!("{files} ({:.0} % of quota)", 100.0 * stored / quota)
            }
            _ => files,
        }
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or("-").to_owned()
}

/// With as many digits as tell sizes apart.
pub fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = bytes;
    let mut unit = 0;
    while scaled >= 1_024.0 && unit + 1 < UNITS.len() {
        scaled /= 1_024.0;
        unit += 1;
    }
    if unit == 0 || scaled >= 100.0 {
        format!("{scaled:.0} {}", UNITS[unit])
    } else {
        format!("{scaled:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Value {
        json!({
            "summary": "2 of 3 members healthy, leader n1, 1 alarm", "revision": 4_711, "keys": 12,
            "stored_bytes": 3_145_728, "quota_bytes": 8_589_934_592_u64, "regions": 1, "auth": false,
            "alarms": [{ "kind": "NOSPACE", "node": "n1", "advice": "free some space" }],
            "nodes": {
                "b": {
                    "name": "n2", "role": "follower", "member": true, "trouble": "connection refused",
                    "numbers": { "applied": 90, "committed": 95 },
                },
                "a": {
                    "name": "n1", "role": "leader", "member": true, "trouble": null, "version": "0.2.0",
                    "recent": { "values": {} },
                    "numbers": {
                        "applied": 100, "committed": 100, "puts_per_second": 1_234.5, "fsync_p99_ms": 0.84,
                        "watches": 7, "cpu_percent": 12.4, "store_bytes": 1_048_576, "wal_bytes": 33_554_432,
                        "stored_bytes": 3_145_728, "quota_bytes": 8_589_934_592_u64,
                    },
                },
            },
        })
    }

    #[test]
    fn a_frame_shows_every_node_with_what_it_told() {
        let locks = json!({ "count": 2, "waiters": 1, "next_page": null });
        let shown = frame(&cluster(), Some(&locks));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "2 of 3 members healthy, leader n1, 1 alarm");
        let totals = "revision 4711, 12 keys, 3.0 MiB of 8.0 GiB stored, 2 locks, 1 waiting for one, 1 regions, auth off";
        assert_eq!(lines[1], totals);
        assert_eq!(lines[2], "ALARM NOSPACE of n1: free some space");
        assert!(lines[4].starts_with("NODE"), "{}", lines[4]);
        let cells = |line: &str| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).count();
        assert_eq!(cells(lines[4]), COLUMNS.len());
        for wanted in ["n1", "leader", "0.2.0", "1234", "0.8 ms", "33.0 MiB (0 % of quota)", "12 %"] {
            assert!(lines[5].contains(wanted), "{wanted} in {}", lines[5]);
        }
        assert!(
            lines[6].contains("n2") && lines[6].contains("away") && lines[6].contains("10"),
            "{}",
            lines[6]
        );
        assert_eq!(lines[7], "n2 does not answer: connection refused; what is shown of it is old");
    }

    #[test]
    fn a_document_has_no_samples_and_says_whether_all_locks_were_counted() {
        let locks = json!({ "count": 900, "waiters": 1, "next_page": "x" });
        let shown = document(&cluster(), Some(&locks));
        assert_eq!(shown["locks"], json!({ "count": 900, "waiters": 1, "counted_all": false }));
        assert!(shown["nodes"]["a"]["recent"].is_null());
        assert_eq!(shown["nodes"]["a"]["numbers"]["watches"], 7);
        assert!(document(&cluster(), None)["locks"].is_null());
    }

    #[test]
    fn sizes_are_shown_in_the_unit_that_fits() {
        let shown = [12.0, 2_048.0, 150.0 * 1_048_576.0, 5e15].map(bytes);
        assert_eq!(shown, ["12 B", "2.0 KiB", "150 MiB", "4547 TiB"]);
    }
}
