//! `althing txn`: reads a transaction from standard input in etcdctl's syntax and commits it.
//! Three paragraphs, each ended by an empty line: compares, what to do when all hold, what to do otherwise.

mod compare;

use super::del::Del;
use super::fence::FenceOption;
use super::get::Get;
use super::put::Put;
use super::{Error, Options, Printer, print, words};
use clap::{Args, Parser};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{RequestOp, TxnRequest};
use std::io::BufRead;

const EXAMPLE: &str = "\
Example:
  althing txn <<'END'
  value(\"greeting\") = \"hello\"
  version(\"greeting\") > \"0\"

  put greeting hi
  get greeting

  put greeting hello

  END

Compares are TARGET(\"KEY\") OP \"VALUE\" with the targets version, create, mod, value and lease and the operators
=, !=, < and >. Requests are get, put and del with their flags. Each of the three parts ends with an empty line.";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Txn {
    /// Ask for each part
    #[arg(short, long)]
    interactive: bool,
    #[command(flatten)]
    fence: FenceOption,
}

impl Txn {
    pub async fn run(&self, options: &Options) -> Result<(), Error> {
        let request = self.read(&mut std::io::stdin().lock())?;
        let client = options.client()?;
        let response = match self.fence.fence()? {
            None => client.txn(request).await?,
            Some(fence) => client.txn_fenced(&fence, request).await?,
        };
        print(&Printer::new(options).txn(&response))
    }

    fn read(&self, input: &mut dyn BufRead) -> Result<TxnRequest, Error> {
        self.prompt("compares:")?;
        let compare = read_part(input, compare::parse)?;
        self.prompt("success requests (get, put, del):")?;
        let success = read_part(input, parse_operation)?;
        self.prompt("failure requests (get, put, del):")?;
        let failure = read_part(input, parse_operation)?;
        Ok(TxnRequest { compare, success, failure })
    }

    fn prompt(&self, text: &str) -> Result<(), Error> {
        if self.interactive { print(format!("{text}\n").as_bytes()) } else { Ok(()) }
    }
}

/// Lines up to an empty one, or to the end of the input.
fn read_part<T>(input: &mut dyn BufRead, parse: impl Fn(&[u8]) -> Result<T, Error>) -> Result<Vec<T>, Error> {
    let mut parsed = vec![];
    loop {
        let mut line = vec![];
        input.read_until(b'\n', &mut line).map_err(Error::Input)?;
        match line.trim_ascii() {
            b"" => return Ok(parsed),
            line => parsed.push(parse(line)?),
        }
    }
}

/// One line of the second or third part.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_subcommand = true)]
enum Operation {
    Get(Get),
    Put(Put),
    Del(Del),
}

fn parse_operation(line: &[u8]) -> Result<RequestOp, Error> {
    let refusal = || Error::Usage(format!("invalid txn request: {}", String::from_utf8_lossy(line)));
    let words = words::split(line).ok_or_else(refusal)?;
    let request = match Operation::try_parse_from(words).map_err(|_| refusal())? {
        Operation::Get(get) => Request::RequestRange(get.request()?),
        Operation::Put(put) => Request::RequestPut(put.operation()?),
        Operation::Del(del) => Request::RequestDeleteRange(del.operation()?),
    };
    Ok(RequestOp { request: Some(request) })
}

#[cfg(test)]
mod tests;
