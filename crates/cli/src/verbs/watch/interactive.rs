//! `althing watch -i`: lines of standard input begin watches, which all run side by side. A line that cannot be
//! parsed is reported and skipped; the end of the input ends them all.

use super::{WatchTarget, follow};
use crate::client::{Client, Error, Options};
use crate::output::Printer;
use crate::verbs::words;
use clap::Parser;
use std::io::{BufRead, Write};
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};

/// Lines that are read ahead.
const LINES_WAITING: usize = 16;

#[derive(Parser)]
#[command(no_binary_name = true, disable_help_subcommand = true, disable_help_flag = true)]
enum InputLine {
    Watch(WatchTarget),
    Progress,
}

pub async fn run(options: &Options) -> Result<(), Error> {
    let client = options.client()?;
    let printer = Arc::new(Printer::new(options));
    let mut lines = read_lines();
    let mut bells: Vec<Arc<Notify>> = vec![];
    while let Some(line) = lines.recv().await {
        let line = line.map_err(Error::Input)?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        match parse(&line) {
            Ok(InputLine::Progress) => {
                bells.iter().for_each(|progress_request| progress_request.notify_one())
            }
            Ok(InputLine::Watch(subject)) => match begin(&client, subject, &printer) {
                Ok(progress_request) => bells.push(progress_request),
                Err(error) => print_error(&error),
            },
            Err(error) => print_error(&error),
        }
    }
    Ok(())
}

fn begin(client: &Client, subject: WatchTarget, printer: &Arc<Printer>) -> Result<Arc<Notify>, Error> {
    let watcher = client.watch(subject.request()?);
    let (progress_request, printer) = (Arc::new(Notify::new()), printer.clone());
    let rung = progress_request.clone();
    tokio::spawn(async move {
        if let Err(error) = follow(watcher, &printer, &subject.command, &rung).await {
            print_error(&error);
        }
    });
    Ok(progress_request)
}

fn parse(line: &[u8]) -> Result<InputLine, Error> {
    let shown = String::from_utf8_lossy(line.trim_ascii()).into_owned();
    let words = words::split(line).ok_or_else(|| Error::Usage(format!("a quote is not closed: {shown}")))?;
    InputLine::try_parse_from(words).map_err(|error| {
        let why = error.to_string();
        let why = why.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Error::Usage(format!("invalid line: {shown} ({why}); a line is `watch [flags] KEY` or `progress`"))
    })
}

fn print_error(error: &Error) {
    // The other watches continue.
    let _ = writeln!(std::io::stderr(), "{error}");
}

/// Standard input waits in a thread of its own, which ends with the process.
fn read_lines() -> mpsc::Receiver<std::io::Result<Vec<u8>>> {
    let (sender, lines) = mpsc::channel(LINES_WAITING);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().split(b'\n') {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_as_on_the_command_line() {
        let Ok(InputLine::Watch(subject)) = parse(b"watch \"a b\" --prefix --rev 3 --prev-kv -- echo 'x y'")
        else {
            panic!("a watch")
        };
        let request = subject.request().unwrap();
        assert_eq!((&request.key[..], &request.range_end[..]), (&b"a b"[..], &b"a c"[..]));
        assert!(request.start_revision == 3 && request.prev_kv && !request.progress_notify);
        assert_eq!(subject.command, ["echo", "x y"]);
        assert!(matches!(parse(b" progress "), Ok(InputLine::Progress)));
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        for line in [&b"fly"[..], b"watch --rev x a", b"watch \"a", b"watch a -w json"] {
            let Err(error) = parse(line) else { panic!("{line:?}") };
            assert!(error.to_string().contains("line") || error.to_string().contains("quote"), "{error}");
        }
    }
}
