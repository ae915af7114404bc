//! `althing completion`: a completion script for a shell.

use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;
use std::process::ExitCode;

const EXAMPLE: &str = "\
Example:
  source <(althing completion bash)
  althing completion zsh > \"${fpath[1]}/_althing\"
  althing completion fish > ~/.config/fish/completions/althing.fish";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Completion {
    shell: Known,
}

#[derive(Clone, Copy, ValueEnum)]
enum Known {
    Bash,
    Zsh,
    Fish,
}

impl Completion {
    pub fn run(&self, mut command: Command) -> ExitCode {
        let shell = match self.shell {
            Known::Bash => Shell::Bash,
            Known::Zsh => Shell::Zsh,
            Known::Fish => Shell::Fish,
        };
        let mut script = vec![];
        clap_complete::generate(shell, &mut command, "althing", &mut script);
        let written = std::io::Write::write_all(&mut std::io::stdout(), &script);
        if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
