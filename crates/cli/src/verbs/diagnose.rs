//! `althing diagnose`: one archive for a bug report, made of what nodes tell over REST and of log files. What nodes tell
//! has no keys, values or secrets in it; what this tool knows to be secret is blanked in everything. Each part has its
//! checksum in the archive.

use super::{Error, print};
use crate::redact::Redactor;
use crate::rest::{RestCall, RestOptions};
use base::date;
use clap::Args;
use ring::digest::SHA256;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const EXAMPLE: &str = "\
Example:
  althing diagnose                                       of the node at 127.0.0.1:8080
  althing diagnose --http-endpoints n1:8080,n2:8080,n3:8080 --log /var/log/althing.log
  althing diagnose --out report.tar.zst && tar --zstd -tf report.tar.zst";

/// The end of a log file that is taken.
const LOG_BYTES_MAX: u64 = 32 * 1024 * 1024;
const ZSTD_LEVEL: i32 = 3;

/// What each node is asked for, and the file that it becomes.
const PARTS: [(&str, &str); 11] = [
    ("cluster.json", "/v1/cluster"),
    ("events.json", "/v1/cluster/events"),
    ("last-hour.json", "/v1/cluster/metrics"),
    ("metrics.txt", "/metrics"),
    ("settings.json", "/v1/settings"),
    ("slow-requests.json", "/v1/slow-requests"),
    ("upgrade.json", "/v1/upgrade"),
    ("ring.json", "/v1/ring"),
    ("regions.json", "/v1/regions"),
    ("compaction.json", "/v1/compaction"),
    ("version.json", "/version"),
];

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Diagnose {
    /// Where the archive goes [default: althing-diagnose-TIME.tar.zst here]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// A log file of a node on this machine; several times for several
    #[arg(long, value_name = "FILE")]
    log: Vec<PathBuf>,
    #[command(flatten)]
    options: RestOptions,
}

/// A file of the archive.
struct Part {
    name: String,
    content: Vec<u8>,
}

/// What the archive is made of so far.
struct Report {
    redactor: Redactor,
    parts: Vec<Part>,
    /// What could not be had, and why.
    missing: Vec<String>,
}

impl Diagnose {
    pub async fn run(&self) -> Result<(), Error> {
        let redactor = Redactor::new(self.options.secrets());
        let mut report = Report { redactor, parts: Vec::new(), missing: Vec::new() };
        for (endpoint, options) in self.options.each() {
            report.ask(&endpoint, &options).await?;
        }
        if report.parts.is_empty() {
            return Err(Error::RestUnavailable(report.missing.join("; ")));
        }
        for path in &self.log {
            report.add_log(path);
        }
        let made_ms = now_ms();
        report.finish(made_ms);
        let out = self.out.clone().unwrap_or_else(|| PathBuf::from(name_of(made_ms)));
        report.write(&out, made_ms / 1_000).map_err(Error::Output)?;
        print(report.summary(&out).as_bytes())
    }
}

impl Report {
    /// A node that does not answer one question may answer the next: callers may not see everything. A caller without valid
    /// credentials gets no report of what every stranger may see.
    async fn ask(&mut self, endpoint: &str, options: &RestOptions) -> Result<(), Error> {
        let folder = endpoint.rsplit('/').next().unwrap_or(endpoint).replace(':', "_");
        for (file, path) in PARTS {
            match options.ask(RestCall::new("GET", path)).await {
                Ok(answer) => self.add(format!("{folder}/{file}"), answer.body),
                Err(error @ Error::Rest { status: 401, .. }) => return Err(error),
                Err(error) => self.missing.push(format!("{endpoint}{path}: {error}")),
            }
        }
        Ok(())
    }

    fn add(&mut self, name: String, content: Vec<u8>) {
        let content = self.redactor.blank(content);
        self.parts.push(Part { name, content });
    }

    fn add_log(&mut self, path: &Path) {
        let base = path.file_name().map_or_else(|| "log".into(), |name| name.to_string_lossy());
        let nth = self.parts.iter().filter(|part| part.name.starts_with("logs/")).count();
        match end_of(path) {
            Ok(content) => self.add(format!("logs/{nth}-{base}"), content),
            Err(error) => self.missing.push(format!("{}: {error}", path.display())),
        }
    }

    /// The list of parts with their checksums, and of what is missing.
    fn finish(&mut self, made_ms: u64) {
        let parts: Vec<Value> = self
            .parts
            .iter()
            .map(|part| json!({ "name": part.name, "bytes": part.content.len(), "sha256": digest(&part.content) }))
            .collect();
        let manifest = json!({
            "format": 1, "release": env!("CARGO_PKG_VERSION"), "made_at": date::rfc3339(made_ms),
            "parts": parts, "missing": self.missing,
        });
        let text = serde_json::to_vec_pretty(&manifest).expect("a document of texts and numbers");
        self.add("MANIFEST.json".to_owned(), text);
        let sums = self.parts.iter().map(|part| format!("{}  {}\n", digest(&part.content), part.name));
        let sums = sums.collect::<String>();
        self.parts.push(Part { name: "SHA256SUMS".to_owned(), content: sums.into_bytes() });
    }

    fn write(&self, out: &Path, mtime: u64) -> io::Result<()> {
        let packed = zstd::Encoder::new(File::create(out)?, ZSTD_LEVEL)?;
        let mut archive = tar::Builder::new(packed);
        for Part { name, content } in &self.parts {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o600);
            header.set_mtime(mtime);
            archive.append_data(&mut header, format!("althing-diagnose/{name}"), &content[..])?;
        }
        archive.into_inner()?.finish()?.sync_all()
    }

    fn summary(&self, out: &Path) -> String {
        let bytes: usize = self.parts.iter().map(|part| part.content.len()).sum();
        let missing = self.missing.iter().map(|what| format!("missing: {what}\n")).collect::<String>();
        format!("{}: {} parts, {bytes} bytes before packing\n{missing}", out.display(), self.parts.len())
    }
}

fn end_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(LOG_BYTES_MAX)))?;
    let mut content = Vec::new();
    file.take(LOG_BYTES_MAX).read_to_end(&mut content)?;
    Ok(content)
}

fn digest(content: &[u8]) -> String {
    ring::digest::digest(&SHA256, content).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// Without colons, which some file systems refuse.
fn name_of(made_ms: u64) -> String {
    let time: String = date::rfc3339(made_ms).chars().filter(char::is_ascii_digit).take(14).collect();
    format!("althing-diagnose-{time}.tar.zst")
}
