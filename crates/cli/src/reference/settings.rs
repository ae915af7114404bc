//! The page of settings, from the table that flags, variables and the file are made from.

use super::{code, table};
use crate::config::setting::Id;

const HEAD: &str = "\
Every setting is a flag of `althing serve`, a variable of the environment and a key of the TOML file that `--config FILE` names. \
Flags win over the environment, the environment over the file. `althing serve --print-config` prints each with its value, where \
that comes from, and its meaning.\n\n";

pub fn render() -> String {
    let rows = Id::ALL.iter().map(|id| {
        let setting = id.setting();
        [
            code(&format!("--{}", setting.name)),
            code(&setting.variable()),
            setting.shape(),
            code(&setting.default_text()),
            setting.meaning.to_owned(),
        ]
    });
    HEAD.to_owned() + &table(["flag", "variable", "value", "default", "meaning"], rows)
}
