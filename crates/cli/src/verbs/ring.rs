//! `althing ring`: who is in the ring, how much of it each node keeps, and what moves.

use super::data::plain;
use super::{Error, print};
use crate::output::draw;
use crate::rest::{Call, Format, RestOptions};
use clap::Args;
use serde_json::Value;

const EXAMPLE: &str = "\
Example:
  althing ring                                   as the first node that answers knows it
  althing ring -w table --http-endpoints 10.0.0.2:8080";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Ring {
    #[command(flatten)]
    options: RestOptions,
}

const HEADS: [&str; 8] = ["NODE", "NAME", "ZONE", "VNODES", "STANDING", "SEEMS DOWN", "FIRST", "PARTITIONS"];
const FIELDS: [&str; 8] =
    ["node", "name", "zone", "vnodes", "standing", "seems_down", "partitions_first", "partitions"];

impl Ring {
    pub async fn run(&self) -> Result<(), Error> {
        let ring = self.options.ask_json(Call::new("GET", "/v1/ring")).await?;
        let nodes = ring["nodes"].as_array().cloned().unwrap_or_default();
        let row = |node: &Value| FIELDS.map(|field| plain(&node[field])).to_vec();
        let text = match self.options.write_out {
            Format::Json => format!("{ring}\n"),
            Format::Table => draw(&HEADS, nodes.iter().map(row).collect()) + &moving(&ring),
            Format::Simple => {
                let lines = nodes.iter().map(|node| row(node).join(", ") + "\n").collect::<String>();
                lines + &moving(&ring)
            }
        };
        print(text.as_bytes())
    }
}

/// One line on how it is doing.
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
