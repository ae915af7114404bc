//! `althing namespace`: which namespaces the leaderless store has, and what each wants: how many copies of a key, which
//! type a key has that is written without one, and what happens to writes that conflict.

use super::data::plain;
use super::{Error, print};
use crate::output::draw;
use crate::rest::{Format, RestCall, RestOptions};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

const PATH: &str = "/v1/namespaces/";

const CREATE_EXAMPLE: &str = "\
Example:
  althing namespace create shop                  three copies, the last write wins
  althing namespace create carts --copies 5 --default-type orset --conflict-policy CRDT
  althing role grant-permission app readwrite --data shop   who may use it, where auth is on";
const SET_EXAMPLE: &str = "\
Example: writes that conflict are refused from now on; how many copies there are is never changed
  althing namespace set shop --conflict-policy FAIL";

#[derive(Subcommand)]
pub enum Namespace {
    /// Lists the namespaces that the caller may see
    Ls {
        #[command(flatten)]
        options: RestOptions,
    },
    /// Shows what one wants
    Show {
        name: String,
        #[command(flatten)]
        options: RestOptions,
    },
    /// Makes one that is not there yet
    #[command(after_help = CREATE_EXAMPLE)]
    Create {
        name: String,
        /// How many nodes keep each key, from 1 to 5 [default: 3]
        #[arg(long, value_name = "N")]
        copies: Option<u8>,
        #[command(flatten)]
        wants: Wants,
        #[command(flatten)]
        options: RestOptions,
    },
    /// Changes what one wants
    #[command(after_help = SET_EXAMPLE)]
    Set {
        name: String,
        #[command(flatten)]
        wants: Wants,
        #[command(flatten)]
        options: RestOptions,
    },
    /// Removes one that holds no key
    #[command(alias = "del")]
    Delete {
        name: String,
        #[command(flatten)]
        options: RestOptions,
    },
}

/// What may be changed of a namespace.
#[derive(Args)]
pub struct Wants {
    /// The type of a key that is written without one, as lww_register, orset or pncounter
    #[arg(long, value_name = "TYPE")]
    default_type: Option<String>,
    /// What happens to writes that conflict: LWW, CRDT or FAIL
    #[arg(long, value_name = "POLICY")]
    conflict_policy: Option<String>,
}

impl Wants {
    fn body(&self) -> Map<String, Value> {
        let fields = [("default_type", &self.default_type), ("conflict_policy", &self.conflict_policy)];
        let given = fields.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        given.map(|(name, value)| (name.to_owned(), json!(value))).collect()
    }
}

const HEADS: [&str; 4] = ["NAMESPACE", "COPIES", "DEFAULT TYPE", "CONFLICT POLICY"];
const FIELDS: [&str; 4] = ["namespace", "n", "default_type", "conflict_policy"];

impl Namespace {
    pub async fn run(&self) -> Result<(), Error> {
        match self {
            Namespace::Ls { options } => {
                let answer = options.ask_json(RestCall::new("GET", "/v1/namespaces")).await?;
                let all = answer["namespaces"].as_array().cloned().unwrap_or_default();
                show(options, &answer, &all)
            }
            Namespace::Show { name, options } => {
                let answer = options.ask_json(RestCall::of_key("GET", PATH, name)).await?;
                show(options, &answer, std::slice::from_ref(&answer))
            }
            Namespace::Create { name, copies, wants, options } => {
                if exists(options, name).await? {
                    let problem = format!("there is a namespace {name}: `althing namespace set` changes it");
                    return Err(Error::Usage(problem));
                }
                let mut body = wants.body();
                body.extend(copies.map(|copies| ("n".to_owned(), json!(copies))));
                put(options, name, body).await
            }
            Namespace::Set { name, wants, options } => {
                // It would be made by the change.
                if !exists(options, name).await? {
                    let problem =
                        format!("there is no namespace {name}: `althing namespace create` makes one");
                    return Err(Error::Usage(problem));
                }
                let body = wants.body();
                if body.is_empty() {
                    return Err(Error::Usage(
                        "--default-type or --conflict-policy says what to change".into(),
                    ));
                }
                put(options, name, body).await
            }
            Namespace::Delete { name, options } => {
                let answer = options.ask_json(RestCall::of_key("DELETE", PATH, name)).await?;
                match options.write_out {
                    Format::Json => print(format!("{answer}\n").as_bytes()),
                    Format::Simple | Format::Table => {
                        print(format!("namespace {name} is deleted\n").as_bytes())
                    }
                }
            }
        }
    }
}

async fn exists(options: &RestOptions, name: &str) -> Result<bool, Error> {
    match options.ask(RestCall::of_key("GET", PATH, name)).await {
        Ok(_) => Ok(true),
        Err(Error::Rest { status: 404, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn put(options: &RestOptions, name: &str, body: Map<String, Value>) -> Result<(), Error> {
    let answer = options.ask_json(RestCall::of_key("PUT", PATH, name).json(&Value::Object(body))).await?;
    show(options, &answer, std::slice::from_ref(&answer))
}

fn show(options: &RestOptions, answer: &Value, namespaces: &[Value]) -> Result<(), Error> {
    let row = |one: &Value| FIELDS.map(|field| plain(&one[field])).to_vec();
    let text = match options.write_out {
        Format::Json => format!("{answer}\n"),
        Format::Table => draw(&HEADS, namespaces.iter().map(row).collect()),
        Format::Simple => namespaces.iter().map(|one| row(one).join(", ") + "\n").collect(),
    };
    print(text.as_bytes())
}
