//! `althing region`: the other regions that hold the same data, the lag of each, and the table of regions.

use super::data::plain;
use super::{Error, print};
use crate::output::draw;
use crate::rest::{Format, RestCall, RestOptions};
use clap::Subcommand;
use serde_json::{Value, json};

const LS_EXAMPLE: &str = "\
Example:
  althing region ls -w table                     as the first node that answers sees them";
const ADD_EXAMPLE: &str = "\
Example: two regions come to know each other, each by some peer addresses of the other
  althing region add us-east 10.1.0.1:2380 10.1.0.2:2380 --http-endpoints 10.2.0.1:8080
  althing region add eu-west 10.2.0.1:2380 --http-endpoints 10.1.0.1:8080";
const REMOVE_EXAMPLE: &str = "\
Example: a region is gone for good; nothing is kept for it any more
  althing region remove us-east";

const HOME_EXAMPLE: &str = "\
Example: eu-west alone writes the namespace shop, until it is not heard of for ten seconds
  althing region home shop eu-west --lease-ms 10000
  althing region home shop                       who owns it now";

#[derive(Subcommand)]
pub enum Region {
    /// Lists the other regions: whether each answers, and its lag
    #[command(after_help = LS_EXAMPLE)]
    Ls {
        #[command(flatten)]
        options: RestOptions,
    },
    /// Adds a region to the table, or replaces its addresses
    #[command(after_help = ADD_EXAMPLE)]
    Add {
        name: String,
        /// Peer addresses of some of its nodes
        #[arg(required = true, value_name = "HOST:PORT")]
        peers: Vec<String>,
        #[command(flatten)]
        options: RestOptions,
    },
    /// Evicts a region: its frames are ignored, and nothing is stored for it
    #[command(after_help = REMOVE_EXAMPLE)]
    Remove {
        name: String,
        #[command(flatten)]
        options: RestOptions,
    },
    /// Shows which region owns a namespace, or hands it to one
    #[command(after_help = HOME_EXAMPLE)]
    Home {
        namespace: String,
        /// The region that will own it
        region: Option<String>,
        /// Only the keys that begin so
        #[arg(long, default_value = "")]
        prefix: String,
        /// How long the owner may be silent before a majority of regions chooses another; 0 for ever
        #[arg(long, requires = "region")]
        lease_ms: Option<u64>,
        #[command(flatten)]
        options: RestOptions,
    },
}

const HEADS: [&str; 6] = ["REGION", "HEALTHY", "LAG OUT MS", "LAG IN MS", "ACKNOWLEDGED", "LAST"];
const FIELDS: [&str; 6] = ["region", "healthy", "lag_out_ms", "lag_in_ms", "acknowledged", "last"];

impl Region {
    pub async fn run(&self) -> Result<(), Error> {
        match self {
            Region::Ls { options } => list(options).await,
            Region::Add { name, peers, options } => {
                let call = RestCall::of_key("PUT", "/v1/regions/", name).json(&json!({ "peers": peers }));
                print_answer(options, &options.ask_json(call).await?, &format!("region {name} is listed\n"))
            }
            Region::Remove { name, options } => {
                let call = RestCall::of_key("DELETE", "/v1/regions/", name);
                print_answer(options, &options.ask_json(call).await?, &format!("region {name} is evicted\n"))
            }
            Region::Home { namespace, region, prefix, lease_ms, options } => {
                let path = format!("/v1/namespaces/{namespace}/home");
                let call = match region {
                    None => {
                        RestCall::new("GET", &path).query("prefix", (!prefix.is_empty()).then_some(prefix))
                    }
                    Some(region) => {
                        let mut wanted = json!({ "region": region, "prefix": prefix });
                        if let Some(lease_ms) = lease_ms {
                            wanted["lease_ms"] = json!(lease_ms);
                        }
                        RestCall::new("PUT", &path).json(&wanted)
                    }
                };
                let answer = options.ask_json(call).await?;
                let text = match &answer["home_region"] {
                    Value::Null => "no region owns it\n".to_owned(),
                    region => format!("{}, epoch {}\n", plain(region), answer["epoch"]),
                };
                print_answer(options, &answer, &text)
            }
        }
    }
}

async fn list(options: &RestOptions) -> Result<(), Error> {
    let answer = options.ask_json(RestCall::new("GET", "/v1/regions")).await?;
    let regions = answer["regions"].as_array().cloned().unwrap_or_default();
    let row = |one: &Value| FIELDS.map(|field| plain(&one[field])).to_vec();
    let troubles = regions.iter().filter(|one| one["trouble"].is_string());
    let troubles: String =
        troubles.map(|one| format!("{}: {}\n", plain(&one["region"]), plain(&one["trouble"]))).collect();
    let text = match options.write_out {
        Format::Json => format!("{answer}\n"),
        Format::Table => draw(&HEADS, regions.iter().map(row).collect()) + &troubles,
        Format::Simple => {
            regions.iter().map(|one| row(one).join(", ") + "\n").collect::<String>() + &troubles
        }
    };
    print(text.as_bytes())
}

fn print_answer(options: &RestOptions, answer: &Value, text: &str) -> Result<(), Error> {
    match options.write_out {
        Format::Json => print(format!("{answer}\n").as_bytes()),
        Format::Simple | Format::Table => print(text.as_bytes()),
    }
}
