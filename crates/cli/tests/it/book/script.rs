//! A page as a script: blocks in their order, with free ports in the place of those that the page names.

use super::page::{Action, Block, Page, expectation};
use super::{is_there, root};
use crate::process::free_port;
use std::collections::BTreeMap;
use std::path::Path;

pub struct Script {
    pub text: String,
    /// What must be printed before each mark.
    pub wanted: Vec<String>,
    pub skipped: Vec<String>,
}

/// Separates what is printed for one comment from what is printed for the next.
const MARK: &str = "--- the next part of the page ---";

/// Where a node serves that is started without flags.
const CLIENT_PORT: u16 = 2379;
const HTTP_PORT: u16 = 8080;

const HEAD: &str = r#"set -euo pipefail
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
wait_until_serving() {
    for _ in $(seq 600); do
        if curl -sf -o /dev/null "http://127.0.0.1:$1/health"; then return; fi
        sleep 0.1
    done
    echo "no member serves on port $1" >&2
    cat ./*.log >&2
    exit 1
}
wait_until_data_is_served() {
    for _ in $(seq 600); do
        if [ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$1/v1/data/absent")" = 404 ]; then return; fi
        sleep 0.1
    done
    echo "no data is served on port $1" >&2
    exit 1
}
"#;

impl Script {
    pub fn of(page: &Page, dir: &Path) -> Script {
        let mut script = Script { text: HEAD.to_owned(), wanted: Vec::new(), skipped: Vec::new() };
        let mut ports = Ports::default();
        let bin = Path::new(env!("CARGO_BIN_EXE_althing")).parent().unwrap();
        script.line(&format!("export PATH={}:$PATH", bin.display()));
        script.line(&format!("export SOURCES={}", root().display()));
        for name in std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("ALTHING_")) {
            script.line(&format!("unset {name}"));
        }
        let defaults = [("CLIENT_ADDR", CLIENT_PORT), ("PEER_ADDR", 2380), ("HTTP_ADDR", HTTP_PORT)];
        for (name, port) in defaults {
            script.line(&ports.replace(&format!("export ALTHING_{name}=127.0.0.1:{port}")));
        }
        script
            .line(&ports.replace("export ALTHING_ENDPOINTS=127.0.0.1:2379 ETCDCTL_ENDPOINTS=127.0.0.1:2379"));
        script.line(&ports.replace("export ALTHING_HTTP_ENDPOINTS=127.0.0.1:8080"));
        if !page.begins_with_serving() {
            script.serve("althing serve\n", &mut ports);
        }
        for (number, block) in page.blocks.iter().enumerate() {
            let text = ports.replace(&block.text);
            match (block.action, block.language.as_str()) {
                (Action::Serve, _) => script.serve(&block.text, &mut ports),
                (Action::Run, "sh") => match missing_programs(block) {
                    Some(missing) => script.skipped.push(format!("it needs {missing} on PATH")),
                    None => script.shell(&text),
                },
                (Action::Run, _) => script.program(block, &text, &dir.join(format!("example{number}"))),
            }
        }
        script
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Each command in the background; then waits for all of them.
    fn serve(&mut self, text: &str, ports: &mut Ports) {
        let (mut clients, mut https) = (Vec::new(), Vec::new());
        let joined = text.replace("\\\n", " ");
        for (number, command) in joined.lines().filter(|line| !line.is_empty()).enumerate() {
            let given = |flag: &str| {
                let (_, rest) = command.split_once(flag)?;
                rest.trim_start_matches([' ', '='])
                    .split_whitespace()
                    .next()?
                    .rsplit(':')
                    .next()?
                    .parse()
                    .ok()
            };
            if !command.contains("althing ") && !command.contains("etcd ") {
                self.line(&ports.replace(command));
                continue;
            }
            clients.push(given("--client-addr").unwrap_or(CLIENT_PORT));
            https.push(given("--http-addr").unwrap_or(HTTP_PORT));
            self.line(&format!("{} > serve{number}.log 2>&1 &", ports.replace(command)));
        }
        for port in clients {
            self.line(&format!("wait_until_serving {}", ports.of(port)));
        }
        for port in https {
            self.line(&format!("wait_until_data_is_served {}", ports.of(port)));
        }
    }

    fn shell(&mut self, text: &str) {
        for line in text.lines() {
            match expectation(line) {
                Some(wanted) => self.want(wanted),
                None => self.line(line),
            }
        }
    }

    /// Several comments in a row are about the same output, so all of it is printed once more for each.
    fn want(&mut self, wanted: &str) {
        self.wanted.push(wanted.to_owned());
        self.line(&format!("echo '{MARK}'"));
    }

    fn program(&mut self, block: &Block, text: &str, dir: &Path) {
        let Some(runner) = Runner::of(block) else {
            let library = block.library.as_deref().unwrap_or("no library");
            return self.skipped.push(format!("it needs {} and {library}", block.language));
        };
        std::fs::create_dir_all(dir).unwrap();
        let file = dir.join(runner.file);
        std::fs::write(&file, text).unwrap();
        self.line(&format!("{} {}", runner.command, file.display()));
        let wanted: Vec<&str> = text.lines().filter_map(expectation).collect();
        // The program prints everything before the first mark.
        if !wanted.is_empty() {
            self.want(&wanted.join("…"));
        }
    }
}

/// What the commands need and is not here. A wrapper on PATH whose program is missing is as good as none, so each is started.
fn missing_programs(block: &Block) -> Option<&str> {
    let programs = block.library.as_deref()?.split(',');
    programs.into_iter().find(|program| !is_there(program, &["--help"]))
}

/// How a program in another language is run here.
struct Runner {
    command: String,
    file: &'static str,
}

impl Runner {
    /// None where the interpreter or the library is missing. `PYTHON`, `NODE` and `GO` name the programs.
    fn of(block: &Block) -> Option<Runner> {
        let program = |variable: &str, default: &str| std::env::var(variable).unwrap_or(default.to_owned());
        let library = block.library.as_deref();
        match block.language.as_str() {
            "python" => {
                let python = program("PYTHON", "python3");
                let probe = library.map_or("pass".to_owned(), |library| format!("import {library}"));
                is_there(&python, &["-c", &probe]).then_some(Runner { command: python, file: "example.py" })
            }
            "js" => {
                let node = program("NODE", "node");
                let probe = library.map_or("fetch".to_owned(), |library| format!("require('{library}')"));
                is_there(&node, &["-e", &probe]).then_some(Runner { command: node, file: "example.cjs" })
            }
            "go" => {
                // A library needs a module that has it: `GO_MODULE` is the directory of one.
                let go = program("GO", "go");
                let module = std::env::var("GO_MODULE").ok();
                if !is_there(&go, &["version"]) || library.is_some() && module.is_none() {
                    return None;
                }
                let chdir = module.filter(|_| library.is_some()).map(|dir| format!("-C {dir}"));
                let command = format!("{go} run {}", chdir.unwrap_or_default());
                Some(Runner { command, file: "main.go" })
            }
            _ => None,
        }
    }
}

/// A free port for each that the page names, the same everywhere on the page.
#[derive(Default)]
struct Ports(BTreeMap<u16, u16>);

impl Ports {
    fn of(&mut self, named: u16) -> u16 {
        *self.0.entry(named).or_insert_with(free_port)
    }

    fn replace(&mut self, text: &str) -> String {
        const HOST: &str = "127.0.0.1:";
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(HOST) {
            let (before, after) = rest.split_at(at + HOST.len());
            let digits = after.len() - after.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
            out.push_str(before);
            match after[..digits].parse() {
                Ok(named) => out.push_str(&self.of(named).to_string()),
                Err(_) => out.push_str(&after[..digits]),
            }
            rest = &after[digits..];
        }
        out + rest
    }
}

/// What was printed before each mark, since the last mark that something else was printed before.
pub fn parts(printed: &str) -> impl Iterator<Item = &str> {
    let pieces: Vec<&str> = printed.split(MARK).collect();
    let n_marks = pieces.len() - 1;
    let mut last = "";
    pieces.into_iter().take(n_marks).map(move |piece| {
        if !piece.trim().is_empty() {
            last = piece;
        }
        last
    })
}

#[test]
fn ports_are_replaced_alike_and_marks_in_a_row_share_what_was_printed() {
    let mut ports = Ports::default();
    let text = ports.replace("a=127.0.0.1:2379,127.0.0.1:2380 b=127.0.0.1:2379.");
    assert_eq!(text.matches(&ports.of(2379).to_string()).count(), 2);
    assert!(!text.contains("2379,") && text.ends_with('.'));
    let printed = format!("one\n{MARK}\n{MARK}\ntwo\n{MARK}\nthree");
    assert_eq!(parts(&printed).map(str::trim).collect::<Vec<_>>(), ["one", "one", "two"]);
}
