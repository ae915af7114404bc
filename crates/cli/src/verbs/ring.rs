//! `althing ring`: the nodes of the ring, how much of it each stores, and what moves; `ring leave` makes a
//! node move its data away and leave, `ring stay` revokes that.

use super::data::plain;
use super::{Error, Options, print};
use crate::client::duration;
use crate::output::draw;
use crate::progress::Progress;
use crate::rest::{Format, RestCall, RestOptions};
use clap::{Args, Subcommand};
use proto::althing::store::v1::CreateJoinTokenRequest;
use serde_json::Value;
use std::time::Duration;

const EXAMPLE: &str = "\
Example:
  althing ring                                   as the first node that answers knows it
  althing ring -w table --http-endpoints 10.0.0.2:8080
  althing ring leave n5 --wait                   by its name, or its number in hexadecimal";
const LEAVE_EXAMPLE: &str = "\
Example:
  althing ring leave n5 --wait                   then `althing member remove`, if it has a vote, and stop it
  althing ring leave 9f3a                        a node that is dead: the other replicas fill its places";

const INVITE_EXAMPLE: &str = "\
Example:
  althing ring invite                            on a machine that reaches the cluster
  althing serve --name n4 --join 10.0.0.1:2380 --join-token TOKEN ...   on the new one, with --data-only or without";

/// How often the progress of a move is polled.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Args)]
#[command(after_help = EXAMPLE, args_conflicts_with_subcommands = true)]
pub struct Ring {
    #[command(subcommand)]
    word: Option<RingCommand>,
    #[command(flatten)]
    options: RestOptions,
}

#[derive(Subcommand)]
enum RingCommand {
    /// Makes a node move its data away and leave
    #[command(after_help = LEAVE_EXAMPLE)]
    Leave {
        /// Its name, or its number in hexadecimal
        node: String,
        /// Wait until it has moved everything
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        options: RestOptions,
    },
    /// Prints a token with which one node may join the cluster, once
    #[command(after_help = INVITE_EXAMPLE)]
    Invite {
        /// How long the token can be used
        #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::parse)]
        ttl: Duration,
        #[command(flatten)]
        options: Options,
    },
    /// Revokes `leave` for a node
    Stay {
        /// Its name, or its number in hexadecimal
        node: String,
        #[command(flatten)]
        options: RestOptions,
    },
}

const HEADS: [&str; 10] =
    ["NODE", "NAME", "ZONE", "VNODES", "STANDING", "SEEMS DOWN", "FIRST", "PARTITIONS", "TAKES", "GIVES"];
const FIELDS: [&str; 8] =
    ["node", "name", "zone", "vnodes", "standing", "seems_down", "partitions_first", "partitions"];

impl Ring {
    pub async fn run(&self) -> Result<(), Error> {
        match &self.word {
            None => show(&self.options).await,
            Some(RingCommand::Leave { node, wait, options }) => {
                let answer = call_node(options, "DELETE", node).await?;
                if *wait {
                    wait_until_gone(options, &plain(&answer["node"])).await?;
                }
                done(options, &answer, if *wait { "gone" } else { "leaving" })
            }
            Some(RingCommand::Invite { ttl, options }) => {
                let ttl_seconds = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX).max(1);
                let request = CreateJoinTokenRequest { ttl_seconds, peer_url: String::new() };
                let token = options.client()?.create_join_token(request).await?.token;
                print(format!("{token}\n").as_bytes())
            }
            Some(RingCommand::Stay { node, options }) => {
                let answer = call_node(options, "PUT", node).await?;
                done(options, &answer, "staying")
            }
        }
    }
}

async fn call_node(options: &RestOptions, method: &'static str, node: &str) -> Result<Value, Error> {
    options.ask_json(RestCall::of_key(method, "/v1/ring/nodes/", node)).await
}

fn done(options: &RestOptions, answer: &Value, status: &str) -> Result<(), Error> {
    let node = plain(&answer["node"]);
    let text = match options.write_out {
        Format::Json => format!("{}\n", serde_json::json!({ "node": node, "status": status })),
        Format::Table => draw(&["NODE", "STATUS"], vec![vec![node, status.to_owned()]]),
        Format::Simple => format!("{node} is {status}\n"),
    };
    print(text.as_bytes())
}

/// Without a limit: the time depends on the node's data.
async fn wait_until_gone(options: &RestOptions, node: &str) -> Result<(), Error> {
    let mut progress: Option<Progress> = None;
    loop {
        let ring = options.ask_json(RestCall::new("GET", "/v1/ring")).await?;
        let nodes = ring["nodes"].as_array().cloned().unwrap_or_default();
        let Some(found) = nodes.iter().find(|found| found["node"] == node) else { break };
        let count = |name: &str| found["gives"][name].as_u64().unwrap_or(0);
        let bar = || Progress::new("moving", "partitions", count("partitions"));
        if count("partitions") > 0 {
            progress.get_or_insert_with(bar).update(count("done"));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    if let Some(progress) = progress {
        progress.end();
    }
    Ok(())
}

async fn show(options: &RestOptions) -> Result<(), Error> {
    let ring = options.ask_json(RestCall::new("GET", "/v1/ring")).await?;
    let nodes = ring["nodes"].as_array().cloned().unwrap_or_default();
    let text = match options.write_out {
        Format::Json => format!("{ring}\n"),
        Format::Table => draw(&HEADS, nodes.iter().map(row).collect()) + &moving(&ring),
        Format::Simple => {
            let lines = nodes.iter().map(|node| row(node).join(", ") + "\n").collect::<String>();
            lines + &moving(&ring)
        }
    };
    print(text.as_bytes())
}

fn row(node: &Value) -> Vec<String> {
    let done = |what: &str| match node[what]["partitions"].as_u64() {
        None | Some(0) => "-".to_owned(),
        Some(all) => format!("{} of {all}", node[what]["done"]),
    };
    FIELDS.iter().map(|field| plain(&node[*field])).chain([done("takes"), done("gives")]).collect()
}

/// One line about its state.
fn moving(ring: &Value) -> String {
    let (moving, here) = (&ring["moving"], &ring["here"]);
    let count = |name: &str| moving[name].as_u64().unwrap_or(0);
    let moves = match count("pending") + count("switched") + count("moved") {
        0 => "nothing moves".to_owned(),
        _ => format!(
            "partitions moving: {} pending, {} switched, {} moved",
            moving["pending"], moving["switched"], moving["moved"]
        ),
    };
    format!(
        "epoch {}, {moves}; {} is {}, repaired up to {}\n",
        ring["epoch"],
        plain(&ring["node"]),
        if here["serving"] == true { "serving" } else { "not serving yet" },
        plain(&here["repaired_upto"]),
    )
}
