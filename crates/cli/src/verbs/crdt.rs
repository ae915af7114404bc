//! `althing crdt`: operations on values that merge, over REST.

use super::data::plain;
use super::{Error, print};
use crate::output::draw;
use crate::rest::{Format, RestCall, RestOptions};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

const EXAMPLE: &str = "\
Example:
  althing crdt increment visits                  a counter; --by 5 for more
  althing crdt add tags blue                     a set; `remove` and `contains` as well
  althing crdt delta account -12.50              an exact number, to which every difference counts
  althing crdt get counter:visits                TYPE:KEY";

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
    /// Adds an element to a set
    Add(Member),
    /// Removes an element from a set; an addition that this has not seen stays
    Remove(Member),
    /// Tells whether an element is in a set
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
    /// Reads a value: TYPE:KEY, as counter:visits
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
    kind: Counter,
    #[command(flatten)]
    options: RestOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum Counter {
    Counter,
    Gcounter,
}

#[derive(Args)]
struct Member {
    key: String,
    element: String,
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
            Operation::Get { name, options } => {
                show(options, &options.ask_json(RestCall::of_key("GET", "/v1/crdt/", name)).await?)
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
            Counter::Counter => "counter",
            Counter::Gcounter => "gcounter",
        };
        ask(&self.options, kind, &self.key, word, json!({ "amount": self.by })).await
    }
}

impl Member {
    async fn run(&self, word: &str) -> Result<(), Error> {
        ask(&self.options, "set", &self.key, word, json!({ "element": self.element })).await
    }
}

async fn ask(options: &RestOptions, kind: &str, key: &str, word: &str, body: Value) -> Result<(), Error> {
    let mut call = RestCall::of_key("POST", &format!("/v1/crdt/{kind}:"), key).json(&body);
    call.path.push_str(&format!("/{word}"));
    show(options, &options.ask_json(call).await?)
}

/// The value alone, or what each region has contributed to it.
fn show(options: &RestOptions, answer: &Value) -> Result<(), Error> {
    let elements = answer["elements"].as_array().cloned();
    let text = match (options.write_out, elements) {
        (Format::Json, _) => format!("{answer}\n"),
        (Format::Simple, Some(elements)) => elements.iter().map(|one| plain(one) + "\n").collect(),
        (Format::Simple, None) => plain(answer.get("contains").unwrap_or(&answer["value"])) + "\n",
        (Format::Table, Some(elements)) => {
            draw(&["ELEMENT"], elements.iter().map(|one| vec![plain(one)]).collect())
        }
        (Format::Table, None) => {
            let state = answer["state"].as_object().cloned().unwrap_or_default();
            let rows = state.iter().map(|(region, part)| vec![region.clone(), plain(part)]);
            let total = vec!["all".to_owned(), plain(answer.get("contains").unwrap_or(&answer["value"]))];
            draw(&["REGION", "VALUE"], rows.chain([total]).collect())
        }
    };
    print(text.as_bytes())
}
