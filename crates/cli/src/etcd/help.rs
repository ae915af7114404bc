//! What `etcd --help` and `etcd --version` print.

use super::flags::{FlagTreatment, TABLE};

const HEAD: &str = "\
Usage: etcd [flags]   (or: althing etcd [flags])

Starts a member with etcd's own flags and defaults, so that scripts that start etcd work unchanged. Each flag may
also come from the environment (--data-dir as ETCD_DATA_DIR); the command line wins.

Example:
  etcd --name a --data-dir a.etcd \\
      --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \\
      --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \\
      --initial-cluster a=http://127.0.0.1:2380,b=http://127.0.0.1:2480,c=http://127.0.0.1:2580
";

pub fn text() -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\nHonoured:\n");
    for flag in TABLE.iter().filter(|flag| flag.treatment == FlagTreatment::Honoured) {
        text.push_str(&format!("  --{}\n", flag.name));
    }
    text.push_str("\nAccepted without effect (so is every other --experimental-...):\n");
    for flag in TABLE {
        if let FlagTreatment::NoEffect(why) = flag.treatment {
            text.push_str(&format!("  --{}: {why}\n", flag.name));
        }
    }
    text.push_str("\nRefused:\n");
    for flag in TABLE {
        if let FlagTreatment::Refused(why) = flag.treatment {
            text.push_str(&format!("  --{}: {why}\n", flag.name));
        }
    }
    text
}

pub fn version() -> String {
    format!("etcd Version: {}\nalthing Version: {}\n", api::ETCD_VERSION, env!("CARGO_PKG_VERSION"))
}
