//! `althing crdt`: operations on values that merge, over REST.

use super::data::plain;
use super::{Error, print};
use crate::output::draw;
use crate::rest::{Format, RestCall, RestOptions};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

const EXAMPLE: &str = r#"Example:
  althing crdt increment visits                  a counter; --by 5 for more
  althing crdt add tags blue                     a set; `remove` and `contains` as well
  althing crdt add tags blue red --type bigset   elements of a set of any size; `get bigset:tags` reads it page by page
  althing crdt call map:ann set '{"field": "age", "value": 7}'
                                                 any operation of a type, with its argument in JSON
  althing crdt call sorted_set:game increment '{"member": "ann", "by": 2.5}'
  althing crdt decrement stock --by 3 --type bounded_counter
                                                 never below its bound, which is 0 or what the first --bound says
  althing crdt delta account -12.50              an exact number, to which every difference counts
  althing crdt get counter:visits                TYPE:KEY"#;

/// Elements that are read at a time.
const PAGE_ELEMENTS: u64 = 1_000;

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Crdt {
    #[command(subcommand)]
    operation: Operation,
}

#[derive(Subcommand)]
enum Operation {
    /// Counts up
    Increment(Count),
    /// Counts down
    Decrement(Count),
    /// Adds elements to a set
    Add(Member),
    /// Removes elements from a set; an addition that this has not seen stays
    Remove(Member),
    /// Tells whether elements are in a set
    Contains(Member),
    /// Sets a register
    Set {
        key: String,
        value: String,
        /// The value is JSON, not text
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        options: RestOptions,
    },
    /// Adds a difference, which may be negative, to an exact number
    Delta {
        key: String,
        #[arg(allow_negative_numbers = true)]
        amount: String,
        #[command(flatten)]
        options: RestOptions,
    },
    /// Does an operation of a type by its name, as the REST API has it
    Call {
        /// TYPE:KEY, as map:ann
        name: String,
        /// As set, increment, push, pop, enable or observe
        operation: String,
        /// The argument in JSON
        argument: Option<String>,
        #[command(flatten)]
        options: RestOptions,
    },
    /// Reads a value, and a collection page by page: TYPE:KEY, as counter:visits
    Get {
        name: String,
        #[command(flatten)]
        options: RestOptions,
    },
    /// Deletes a value: TYPE:KEY
    Del {
        name: String,
        #[command(flatten)]
        options: RestOptions,
    },
}

#[derive(Args)]
struct Count {
    key: String,
    /// By how much
    #[arg(long, default_value_t = 1)]
    by: u64,
    /// Whether it can also count down, which must be given when it is counted for the first time
    #[arg(long = "type", value_enum, default_value = "counter")]
    kind: CounterType,
    /// Of a `bounded_counter` that is not there yet: what it is never below, and begins at
    #[arg(long, allow_negative_numbers = true)]
    bound: Option<i64>,
    #[command(flatten)]
    options: RestOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum CounterType {
    #[value(name = "counter")]
    Plain,
    #[value(name = "gcounter")]
    Growing,
    #[value(name = "bounded_counter")]
    Bounded,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SetKind {
    Set,
    Bigset,
}

#[derive(Args)]
struct Member {
    key: String,
    /// A `bigset` takes up to 1,024 at once, a `set` one
    #[arg(required = true)]
    elements: Vec<String>,
    /// A `set` is one value; the elements of a `bigset` are kept one by one, however many there are
    #[arg(long = "type", value_enum, default_value = "set")]
    kind: SetKind,
    #[command(flatten)]
    options: RestOptions,
}

impl Crdt {
    pub async fn run(&self) -> Result<(), Error> {
        match &self.operation {
            Operation::Increment(count) => count.run("increment").await,
            Operation::Decrement(count) => count.run("decrement").await,
            Operation::Add(member) => member.run("add").await,
            Operation::Remove(member) => member.run("remove").await,
            Operation::Contains(member) => member.run("contains").await,
            Operation::Set { key, value, json, options } => {
                let value = if *json {
                    serde_json::from_str(value)
                        .map_err(|error| Error::Usage(format!("the value is no JSON: {error}")))?
                } else {
                    Value::from(value.as_str())
                };
                ask(options, "register", key, "set", json!({ "value": value })).await
            }
            Operation::Delta { key, amount, options } => {
                ask(options, "delta_numeric", key, "add", json!({ "delta": amount })).await
            }
            Operation::Call { name, operation, argument, options } => {
                let argument: Value = serde_json::from_str(argument.as_deref().unwrap_or("{}"))
                    .map_err(|error| Error::Usage(format!("the argument is no JSON: {error}")))?;
                let mut call = RestCall::of_key("POST", "/v1/crdt/", name).json(&argument);
                call.path.push_str(&format!("/{operation}"));
                let call = if is_collection(name) { call.sent_once() } else { call };
                show(options, &options.ask_json(call).await?)
            }
            Operation::Get { name, options } => {
                let mut page: Option<String> = None;
                loop {
                    let limit = is_collection(name).then_some(PAGE_ELEMENTS);
                    let call = RestCall::of_key("GET", "/v1/crdt/", name);
                    let call = call.query("limit", limit).query("page", page);
                    let answer = options.ask_json(call).await?;
                    show(options, &answer)?;
                    page = answer["next_page"].as_str().map(str::to_owned);
                    if page.is_none() {
                        return Ok(());
                    }
                }
            }
            Operation::Del { name, options } => {
                show(options, &options.ask_json(RestCall::of_key("DELETE", "/v1/crdt/", name)).await?)
            }
        }
    }
}

impl Count {
    async fn run(&self, word: &str) -> Result<(), Error> {
        let kind = match self.kind {
            CounterType::Plain => "counter",
            CounterType::Growing => "gcounter",
            CounterType::Bounded => "bounded_counter",
        };
        let mut argument = json!({ "amount": self.by });
        if let Some(bound) = self.bound {
            argument["bound"] = bound.into();
        }
        ask(&self.options, kind, &self.key, word, argument).await
    }
}

impl Member {
    async fn run(&self, word: &str) -> Result<(), Error> {
        match (self.kind, self.elements.as_slice()) {
            (SetKind::Bigset, elements) => {
                let call = call_of("bigset", &self.key, word, &json!({ "elements": elements })).sent_once();
                show(&self.options, &self.options.ask_json(call).await?)
            }
            (SetKind::Set, [element]) => {
                ask(&self.options, "set", &self.key, word, json!({ "element": element })).await
            }
            (SetKind::Set, _) => Err(Error::Usage(
                "a set takes one element at a time; a --type bigset takes several".to_owned(),
            )),
        }
    }
}

/// Whether the elements are rows of their own: then a request has no id, and a read is a page.
fn is_collection(name: &str) -> bool {
    let kind = name.split_once(':').map_or("", |(kind, _)| kind);
    matches!(kind, "bigset" | "map" | "sorted_set" | "list" | "flag" | "hyperloglog")
}

async fn ask(options: &RestOptions, kind: &str, key: &str, word: &str, body: Value) -> Result<(), Error> {
    show(options, &options.ask_json(call_of(kind, key, word, &body)).await?)
}

fn call_of(kind: &str, key: &str, word: &str, body: &Value) -> RestCall {
    let mut call = RestCall::of_key("POST", &format!("/v1/crdt/{kind}:"), key).json(body);
    call.path.push_str(&format!("/{word}"));
    call
}

/// The value alone, or what each region has contributed to it.
fn show(options: &RestOptions, answer: &Value) -> Result<(), Error> {
    let elements = answer["elements"].as_array().cloned();
    if let (Some(entries), false) = (answer["entries"].as_array(), options.write_out == Format::Json) {
        return show_entries(options, entries);
    }
    let text = match (options.write_out, elements) {
        (Format::Json, _) => format!("{answer}\n"),
        (Format::Simple, Some(elements)) => elements.iter().map(|one| plain(one) + "\n").collect(),
        (Format::Simple, None) => plain(shown(answer)) + "\n",
        (Format::Table, Some(elements)) => {
            draw(&["ELEMENT"], elements.iter().map(|one| vec![plain(one)]).collect())
        }
        (Format::Table, None) => {
            let state = answer["state"].as_object().cloned().unwrap_or_default();
            let rows = state.iter().map(|(region, part)| vec![region.clone(), plain(part)]);
            let total = vec!["all".to_owned(), plain(shown(answer))];
            draw(&["REGION", "VALUE"], rows.chain([total]).collect())
        }
    };
    print(text.as_bytes())
}

/// Fields, members or items, each with what it holds.
fn show_entries(options: &RestOptions, entries: &[Value]) -> Result<(), Error> {
    let named = |entry: &Value, names: &[&str]| {
        names.iter().find_map(|name| entry.get(name)).map_or(String::new(), plain)
    };
    let rows = entries
        .iter()
        .map(|entry| vec![named(entry, &["field", "member", "position"]), named(entry, &["value", "score"])]);
    let text = match options.write_out {
        Format::Table => draw(&["ELEMENT", "VALUE"], rows.collect()),
        _ => rows.map(|row| row.join("\t") + "\n").collect(),
    };
    print(text.as_bytes())
}

/// The value in an answer that has no elements.
fn shown(answer: &Value) -> &Value {
    let said = ["contains", "value", "size"].iter().find_map(|name| answer.get(name));
    said.unwrap_or(&answer["value"])
}
