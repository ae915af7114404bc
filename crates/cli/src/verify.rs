//! `althing verify`: prints the content of a member's directory, or what is damaged.
//! Exit code 0 when everything is sound, 1 when something is not, 2 when it could not be read.

use crate::args::USAGE;
use clap::Args;
use server::offline::{self, MemberReport, MeshReport, VerifyReport};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLE: &str = "\
Example:
  althing verify ./althing-data        while the member is stopped; nothing is changed";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Verify {
    /// The data directory of a member that does not run
    data_dir: PathBuf,
}

impl Verify {
    pub fn run(&self) -> ExitCode {
        let mut print = |what: &str| print_stderr(&format!("checking {what}\n"));
        match offline::verify(&self.data_dir, &mut print) {
            Ok(Ok(VerifyReport { member, mesh })) => {
                let text = describe(&member) + &mesh.as_ref().map(describe_mesh).unwrap_or_default();
                let told = std::io::stdout().write_all(text.as_bytes());
                if told.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
            }
            Ok(Err(faults)) => {
                faults.iter().for_each(|fault| print_stderr(&format!("DAMAGED: {fault}\n")));
                ExitCode::FAILURE
            }
            Err(error) => {
                print_stderr(&format!("Error: {error}\n"));
                ExitCode::from(USAGE)
            }
        }
    }
}

fn print_stderr(text: &str) {
    // When standard error is closed, the exit code is enough.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Where a log ends in an incomplete frame, and what a start will do.
fn describe_torn(file: &str, offset: u64, then: &str) -> String {
    format!(
        "; its end in {file} at byte {offset} was being written when the member died, or was damaged since: a start \
         will cut it, and {then}"
    )
}

fn describe(report: &MemberReport) -> String {
    let then = "in a cluster ask the other members what they have";
    let torn = report.log.torn.as_ref().map(|torn| describe_torn(&torn.file, torn.offset, then));
    let torn = torn.unwrap_or_default();
    format!(
        "sound: log of {} segments with {} records{torn}\n\
         sound: store of {} bytes at revision {} (compacted {}), entry {}: {} keys, {} versions, {} leases, \
         hash {:016x}\n",
        report.log.segments,
        report.log.records,
        report.store_bytes,
        report.revision.0,
        report.compacted.0,
        report.applied.index.0,
        report.keys,
        report.versions,
        report.leases,
        report.hash,
    )
}

fn describe_mesh(mesh: &MeshReport) -> String {
    let then = "compare what it has with the other replicas";
    let torn = mesh.log.torn.as_ref().map(|torn| describe_torn(&torn.file, torn.offset, then));
    let torn = torn.unwrap_or_default();
    format!(
        "sound: mesh log of {} segments, {} batches not flushed yet{torn}\n\
         sound: mesh store of {} bytes: {} records, {} deleted, {} hints, {} conflicts\n",
        mesh.log.segments,
        mesh.unflushed,
        mesh.store_bytes,
        mesh.records,
        mesh.tombstones,
        mesh.hints,
        mesh.conflicts,
    )
}
