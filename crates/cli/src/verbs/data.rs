//! `althing data`: keys and values of the leaderless store, over REST.
//! A value is text by default; it is stored as JSON, or as bytes if it comes from a file.

mod watch;

use super::{Error, print};
use crate::output::draw;
use crate::rest::{Format, RestCall, RestOptions};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::io::Read;
use std::path::PathBuf;

const GET_EXAMPLE: &str = "\
Example:
  althing data get user_1
  althing data get user_1 --explain -w json      where it lies, who was counted, how long it took";
const PUT_EXAMPLE: &str = "\
Example:
  althing data put user_1 Alice
  althing data put cart '{\"items\": 3}' --json --ttl 3600
  althing data put photo --file me.png --content-type image/png
  althing data put user_1 Bob --only-if AQ…      refused if it has changed since `get` told that clock";
const DEL_EXAMPLE: &str = "\
Example:
  althing data del user_1";
const BATCH_EXAMPLE: &str = "\
Example:
  althing data batch user_a=100 user_b=200
  sort names.txt | althing data batch            lines of a key, a blank and a value";
const SCAN_EXAMPLE: &str = "\
Example:
  althing data scan user_a user_z                from user_a up to, not including, user_z
  althing data scan --prefix user_ --keys-only   all that begin so";
const LS_EXAMPLE: &str = "\
Example:
  althing data ls --prefix user_                 names of keys, without their values
  althing data ls --reverse --limit 10           the last ten";
const COUNT_EXAMPLE: &str = "\
Example:
  althing data count --prefix user_";
const DELETE_EXAMPLE: &str = "\
Example:
  althing data delete --prefix session/          all keys that begin so";

#[derive(Subcommand)]
pub enum Data {
    /// Reads a key
    #[command(after_help = GET_EXAMPLE)]
    Get(Get),
    /// Writes a key
    #[command(after_help = PUT_EXAMPLE)]
    Put(Put),
    /// Deletes a key
    #[command(after_help = DEL_EXAMPLE)]
    Del(Del),
    /// Writes several keys, each on its own quorum
    #[command(after_help = BATCH_EXAMPLE)]
    Batch(Batch),
    /// Reads keys in order
    #[command(after_help = SCAN_EXAMPLE)]
    Scan(Scan),
    /// Prints the changes of keys as they happen
    #[command(after_help = watch::EXAMPLE)]
    Watch(watch::Watch),
    /// Lists the names of keys in order
    #[command(after_help = LS_EXAMPLE)]
    Ls(Ls),
    /// Counts the keys of a range
    #[command(after_help = COUNT_EXAMPLE)]
    Count(Count),
    /// Deletes the keys of a range
    #[command(after_help = DELETE_EXAMPLE)]
    Delete(Delete),
}

/// Which keys.
#[derive(Args)]
pub struct DataKeys {
    /// The first key, included
    #[arg(long)]
    start: Option<String>,
    /// The key behind the last one, not included
    #[arg(long)]
    end: Option<String>,
    /// All keys that begin so
    #[arg(long, conflicts_with_all = ["start", "end"])]
    prefix: Option<String>,
}

impl DataKeys {
    fn on(&self, call: RestCall) -> RestCall {
        let call = call.query("start", self.start.as_ref()).query("end", self.end.as_ref());
        call.query("prefix", self.prefix.as_ref())
    }

    /// Asks until there is no next page, and says what each page came to.
    async fn over_pages(
        &self,
        options: &RestOptions,
        method: &'static str,
        count: bool,
        mut each: impl FnMut(&Value),
    ) -> Result<(), Error> {
        let mut page: Option<String> = None;
        let mut missing = 0;
        loop {
            let call = self.on(RestCall::new(method, "/api/v1/store/range"));
            let call = call.query("count", count.then_some("true")).query("page", page.as_ref());
            let answer = options.ask_json(call).await?;
            missing = missing.max(answer["missing_partitions"].as_u64().unwrap_or(0));
            each(&answer);
            page = answer["next_page"].as_str().map(str::to_owned);
            if page.is_none() {
                return check_missing(missing);
            }
        }
    }
}

#[derive(Args)]
pub struct Ls {
    #[command(flatten)]
    keys: DataKeys,
    /// From the last key down
    #[arg(long)]
    reverse: bool,
    /// So many keys at most; 0 sets no limit
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    limit: usize,
    #[command(flatten)]
    options: RestOptions,
}

#[derive(Args)]
pub struct Count {
    #[command(flatten)]
    keys: DataKeys,
    #[command(flatten)]
    options: RestOptions,
}

#[derive(Args)]
#[command(group(clap::ArgGroup::new("which").required(true).multiple(true).args(["start", "end", "prefix"])))]
pub struct Delete {
    #[command(flatten)]
    keys: DataKeys,
    #[command(flatten)]
    options: RestOptions,
}

#[derive(Args)]
pub struct Get {
    key: String,
    /// Count so many replicas instead of a majority
    #[arg(long)]
    r: Option<u8>,
    /// One replica, a majority here, a majority of regions or of each, or what is decided in the key's home
    #[arg(long, value_enum, default_value = "local-quorum")]
    consistency: Level,
    /// Print where the key lies, which replicas were counted and how long it took
    #[arg(long)]
    explain: bool,
    /// Print the bytes of the value and nothing else
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    options: RestOptions,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Level {
    LocalOne,
    LocalQuorum,
    GlobalQuorum,
    EachQuorum,
    Linearizable,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Level::LocalOne => "LOCAL_ONE",
            Level::LocalQuorum => "LOCAL_QUORUM",
            Level::GlobalQuorum => "GLOBAL_QUORUM",
            Level::EachQuorum => "EACH_QUORUM",
            Level::Linearizable => "LINEARIZABLE",
        }
    }
}

/// Options of every write.
#[derive(Args)]
pub struct Writing {
    /// Wait until so many replicas have it durably, instead of a majority
    #[arg(long = "w-replicas", value_name = "N")]
    w: Option<u8>,
    /// Let other nodes stand in for replicas that are down
    #[arg(long)]
    sloppy: bool,
    /// Only if the key holds nothing that this clock has not seen, as `get -w json` prints it
    #[arg(long, value_name = "CLOCK")]
    only_if: Option<String>,
    /// Decide it once, in the key's home region, as what `--only-if` and `--create` ask for
    #[arg(long)]
    linearizable: bool,
    /// Only if the key is not there
    #[arg(long, conflicts_with = "only_if")]
    create: bool,
    /// The lock that protects the key, and the token of its holder: lock=NAME,token=N
    #[arg(long, value_name = "FENCE")]
    fence: Option<String>,
    #[command(flatten)]
    options: RestOptions,
}

impl Writing {
    fn on(&self, call: RestCall) -> RestCall {
        let call = call.query("w", self.w).query("sloppy", self.sloppy.then_some("true"));
        call.header("x-if-vector-clock", self.only_if.as_ref())
            .header("x-conflict-resolution", self.create.then_some("FAIL"))
            .header("x-consistency-level", self.linearizable.then_some("LINEARIZABLE"))
            .header("x-fence", self.fence.as_ref())
    }
}

#[derive(Args)]
pub struct Put {
    key: String,
    /// The value; left out, it is read from standard input
    value: Option<String>,
    /// The value is JSON, not text
    #[arg(long)]
    json: bool,
    /// Seconds to live
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<u64>,
    /// How it merges: lww_register, siblings, delta_numeric or custom
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// The handler of a custom value, as max or one that was registered
    #[arg(long, value_name = "NAME", requires = "kind")]
    handler: Option<String>,
    /// Take the bytes of this file for the value
    #[arg(long, value_name = "FILE", conflicts_with_all = ["value", "json"])]
    file: Option<PathBuf>,
    /// What these bytes are
    #[arg(long, value_name = "TYPE", default_value = "application/octet-stream", requires = "file")]
    content_type: String,
    #[command(flatten)]
    writing: Writing,
}

#[derive(Args)]
pub struct Del {
    key: String,
    #[command(flatten)]
    writing: Writing,
}

#[derive(Args)]
pub struct Batch {
    /// KEY=VALUE; left out, lines of a key, a blank and a value are read from standard input
    pairs: Vec<String>,
    /// Wait until so many replicas have each durably, instead of a majority
    #[arg(long = "w-replicas", value_name = "N")]
    w: Option<u8>,
    #[command(flatten)]
    options: RestOptions,
}

#[derive(Args)]
pub struct Scan {
    /// The first key, included
    start: Option<String>,
    /// The key behind the last one, not included
    end: Option<String>,
    /// All keys that begin so
    #[arg(long, conflicts_with_all = ["start", "end"])]
    prefix: Option<String>,
    /// So many keys at most; 0 sets no limit
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    limit: usize,
    /// Leave out the values
    #[arg(long)]
    keys_only: bool,
    /// From the last key down
    #[arg(long)]
    reverse: bool,
    /// Count so many replicas of each partition instead of a majority
    #[arg(long)]
    r: Option<u8>,
    #[command(flatten)]
    options: RestOptions,
}

const PATH: &str = "/v1/data/";
/// Entries of one request, and of one page.
const BATCH_MAX: usize = 1_000;

impl Data {
    pub async fn run(&self) -> Result<(), Error> {
        match self {
            Data::Get(get) => get.run().await,
            Data::Put(put) => put.run().await,
            Data::Del(Del { key, writing }) => {
                let call = writing.on(RestCall::of_key("DELETE", PATH, key));
                print_answer(&writing.options, &writing.options.ask_json(call).await?)
            }
            Data::Batch(batch) => batch.run().await,
            Data::Scan(scan) => scan.run().await,
            Data::Watch(watch) => watch.run().await,
            Data::Ls(Ls { keys: DataKeys { start, end, prefix }, reverse, limit, options }) => {
                let (start, end, prefix) = (start.clone(), end.clone(), prefix.clone());
                let (keys_only, options) = (true, options.clone());
                let scan = Scan {
                    start,
                    end,
                    prefix,
                    limit: *limit,
                    keys_only,
                    reverse: *reverse,
                    r: None,
                    options,
                };
                scan.run().await
            }
            Data::Count(Count { keys, options }) => {
                let mut n = 0;
                keys.over_pages(options, "GET", true, |page| n += page["count"].as_u64().unwrap_or(0))
                    .await?;
                match options.write_out {
                    Format::Json => print(format!("{}\n", json!({ "count": n })).as_bytes()),
                    Format::Simple | Format::Table => print(format!("{n}\n").as_bytes()),
                }
            }
            Data::Delete(Delete { keys, options }) => delete_range(keys, options).await,
        }
    }
}

async fn delete_range(keys: &DataKeys, options: &RestOptions) -> Result<(), Error> {
    let (mut deleted, mut failed) = (0, 0);
    let add = |page: &Value| {
        deleted += page["deleted"].as_u64().unwrap_or(0);
        failed += page["failed"].as_u64().unwrap_or(0);
    };
    keys.over_pages(options, "DELETE", false, add).await?;
    let text = match options.write_out {
        Format::Json => format!("{}\n", json!({ "deleted": deleted, "failed": failed })),
        Format::Simple | Format::Table => format!("{deleted} deleted\n"),
    };
    print(text.as_bytes())?;
    match failed {
        0 => Ok(()),
        n => Err(Error::RestUnavailable(format!("{n} keys may not be deleted: too few replicas answered"))),
    }
}

fn check_missing(n: u64) -> Result<(), Error> {
    match n {
        0 => Ok(()),
        n => Err(Error::RestUnavailable(format!("{n} partitions did not answer: keys may be missing"))),
    }
}

impl Get {
    async fn run(&self) -> Result<(), Error> {
        let call = RestCall::of_key("GET", PATH, &self.key)
            .query("r", self.r)
            .query("explain", self.explain.then_some("true"))
            .query("raw", self.raw.then_some("true"))
            .header("x-consistency-level", Some(self.consistency.word()));
        let answer = self.options.ask(call).await?;
        if self.raw {
            return print(&answer.body);
        }
        let clock = answer.header("x-vector-clock").unwrap_or_default().to_owned();
        let mut found: Value = serde_json::from_slice(&answer.body)
            .map_err(|error| Error::RestUnavailable(format!("the answer is no JSON: {error}")))?;
        found["x_vector_clock"] = clock.into();
        let text = match self.options.write_out {
            Format::Json => format!("{found}\n"),
            Format::Simple => format!("{}\n{}\n{}", self.key, plain(&found["value"]), explained(&found)),
            Format::Table => {
                let row = ["key", "value", "type", "last_modified"].map(|name| plain(&found[name])).to_vec();
                draw(&["KEY", "VALUE", "TYPE", "LAST MODIFIED"], vec![row]) + &explained(&found)
            }
        };
        print(text.as_bytes())
    }
}

fn explained(found: &Value) -> String {
    match &found["explain"] {
        Value::Null => String::new(),
        explain => format!("{explain:#}\n"),
    }
}

impl Put {
    async fn run(&self) -> Result<(), Error> {
        let call = self.writing.on(RestCall::of_key("PUT", PATH, &self.key));
        let options = &self.writing.options;
        let call = match &self.file {
            Some(path) => {
                let file = path.display().to_string();
                let bytes = std::fs::read(path).map_err(|reason| Error::File { file, reason })?;
                let call = call.query("ttl", self.ttl).header("content-type", Some(&self.content_type));
                RestCall { body: bytes, ..call }
            }
            None => call.json(&self.body()?),
        };
        print_answer(options, &options.ask_json(call).await?)
    }

    fn body(&self) -> Result<Value, Error> {
        let text = match &self.value {
            Some(text) => text.clone(),
            None => read_input()?,
        };
        let value = if self.json {
            serde_json::from_str(&text).map_err(|error| {
                Error::Usage(format!("the value is no JSON: {error}; leave out --json for text"))
            })?
        } else {
            Value::from(text)
        };
        let mut body = json!({ "value": value });
        if let Some(ttl) = self.ttl {
            body["ttl"] = ttl.into();
        }
        if let Some(kind) = &self.kind {
            body["type"] = kind.as_str().into();
        }
        if let Some(handler) = &self.handler {
            body["handler"] = handler.as_str().into();
        }
        Ok(body)
    }
}

fn read_input() -> Result<String, Error> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(Error::Input)?;
    Ok(text)
}

/// The answer to a write.
fn print_answer(options: &RestOptions, answer: &Value) -> Result<(), Error> {
    let text = match options.write_out {
        Format::Json => format!("{answer}\n"),
        Format::Simple => "OK\n".to_owned(),
        Format::Table => draw(
            &["STATUS", "VECTOR CLOCK"],
            vec![vec![plain(&answer["status"]), answer["vector_clock"].to_string()]],
        ),
    };
    print(text.as_bytes())
}

/// Text as it is, everything else as JSON.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl Batch {
    async fn run(&self) -> Result<(), Error> {
        let entries = self.entries()?;
        let mut failed = 0;
        for some in entries.chunks(BATCH_MAX) {
            let call = RestCall::new("POST", "/v1/data/batch/write").query("w", self.w);
            let answer = self.options.ask_json(call.json(&json!({ "entries": some }))).await?;
            failed += answer["failed"].as_u64().unwrap_or(0);
            print(self.render(&answer).as_bytes())?;
        }
        match failed {
            0 => Ok(()),
            n => Err(Error::Rest { status: 207, message: format!("{n} of {} keys failed", entries.len()) }),
        }
    }

    fn render(&self, answer: &Value) -> String {
        let results = answer["results"].as_array().map_or(&[][..], Vec::as_slice);
        let row =
            |one: &Value| [plain(&one["key"]), one["status"].to_string(), words(&one["message"])].to_vec();
        match self.options.write_out {
            Format::Json => format!("{answer}\n"),
            Format::Table => draw(&["KEY", "STATUS", "MESSAGE"], results.iter().map(row).collect()),
            Format::Simple => {
                let bad = results.iter().filter(|one| one["status"] != 200);
                let told = bad.map(|one| row(one).join(": ") + "\n").collect::<String>();
                told + &format!("{} written\n", answer["succeeded"])
            }
        }
    }

    fn entries(&self) -> Result<Vec<Value>, Error> {
        let split = |text: &str, by: char| {
            let pair = text.split_once(by).map(|(key, value)| json!({ "key": key, "value": value }));
            pair.ok_or_else(|| Error::Usage(format!("`{text}` is no key and value; write KEY{by}VALUE")))
        };
        let entries: Vec<Value> = if self.pairs.is_empty() {
            let text = read_input()?;
            let lines = text.lines().filter(|line| !line.is_empty());
            lines.map(|line| split(line, ' ')).collect::<Result<_, _>>()?
        } else {
            self.pairs.iter().map(|pair| split(pair, '=')).collect::<Result<_, _>>()?
        };
        if entries.is_empty() {
            Err(Error::Usage("there is nothing to write".to_owned()))
        } else {
            Ok(entries)
        }
    }
}

fn words(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Scan {
    async fn run(&self) -> Result<(), Error> {
        let mut left = if self.limit == 0 { usize::MAX } else { self.limit };
        let mut page: Option<String> = None;
        let (mut rows, mut missing) = (Vec::new(), 0);
        while left > 0 {
            let call = RestCall::new("GET", "/api/v1/store/range")
                .query("start", self.start.as_ref())
                .query("end", self.end.as_ref())
                .query("prefix", self.prefix.as_ref())
                .query("limit", Some(left.min(BATCH_MAX)))
                .query("keys_only", self.keys_only.then_some("true"))
                .query("reverse", self.reverse.then_some("true"))
                .query("r", self.r)
                .query("page", page.as_ref());
            let answer = self.options.ask_json(call).await?;
            missing = missing.max(answer["missing_partitions"].as_u64().unwrap_or(0));
            let entries = answer["entries"].as_array().cloned().unwrap_or_default();
            left -= entries.len().min(left);
            match self.options.write_out {
                Format::Json => print(format!("{answer}\n").as_bytes())?,
                Format::Simple => print(self.lines(&entries).as_bytes())?,
                Format::Table => rows.extend(entries.iter().map(|entry| self.row(entry))),
            }
            page = answer["next_page"].as_str().map(str::to_owned);
            if page.is_none() {
                break;
            }
        }
        if self.options.write_out == Format::Table {
            let heads = if self.keys_only { &["KEY"][..] } else { &["KEY", "VALUE"] };
            print(draw(heads, rows).as_bytes())?;
        }
        check_missing(missing)
    }

    fn row(&self, entry: &Value) -> Vec<String> {
        let mut row = vec![plain(&entry["key"])];
        row.extend((!self.keys_only).then(|| plain(&entry["value"])));
        row
    }

    fn lines(&self, entries: &[Value]) -> String {
        entries.iter().map(|entry| self.row(entry).join("\n") + "\n").collect()
    }
}
