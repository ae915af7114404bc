//! The list of everything that is compiled into the binary, as CycloneDX 1.5: names, versions, licences and checksums.

use super::output;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// One package of the build.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Component {
    name: String,
    version: String,
    licence: String,
}

pub fn render(root: &Path, version: &str) -> io::Result<String> {
    let tree = output(Command::new("cargo").current_dir(root).args([
        "tree",
        "--offline",
        "--locked",
        "--package=althing",
        "--edges=normal,build",
        "--prefix=none",
        "--format={p}|{l}",
    ]))?;
    let components: BTreeSet<Component> = String::from_utf8_lossy(&tree).lines().filter_map(parse).collect();
    let checksums = checksums(&fs::read_to_string(root.join("Cargo.lock"))?);
    let rows: Vec<String> = components.iter().map(|component| row(component, &checksums)).collect();
    Ok(format!(
        "{{\n\"bomFormat\": \"CycloneDX\",\n\"specVersion\": \"1.5\",\n\"version\": 1,\n\"metadata\": {{\"component\": \
         {{\"type\": \"application\", \"name\": \"althing\", \"version\": \"{version}\"}}}},\n\"components\": \
         [\n{}\n]\n}}\n",
        rows.join(",\n")
    ))
}

/// `name v1.2.3 (proc-macro)|MIT OR Apache-2.0`. What this workspace itself consists of is no component.
fn parse(line: &str) -> Option<Component> {
    let (package, licence) = line.split_once('|')?;
    let mut words = package.split_whitespace();
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    let is_ours = words.next().is_some_and(|place| place.starts_with("(/"));
    (!is_ours).then(|| Component {
        name: name.to_owned(),
        version: version.to_owned(),
        // An older notation for a choice.
        licence: licence.trim_end_matches(" (*)").replace('/', " OR "),
    })
}

/// The checksums of Cargo.lock by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let packages = lock.split("[[package]]").skip(1);
    let field = |package: &str, name: &str| {
        let prefix = format!("{name} = \"");
        package.lines().find_map(|line| Some(line.strip_prefix(&prefix)?.trim_end_matches('"').to_owned()))
    };
    packages
        .filter_map(|package| {
            Some(((field(package, "name")?, field(package, "version")?), field(package, "checksum")?))
        })
        .collect()
}

fn row(component: &Component, checksums: &BTreeMap<(String, String), String>) -> String {
    let Component { name, version, licence } = component;
    let hash = checksums.get(&(name.clone(), version.clone()));
    let hashes = hash.map_or(String::new(), |hash| {
        format!(", \"hashes\": [{{\"alg\": \"SHA-256\", \"content\": \"{hash}\"}}]")
    });
    let licences = if licence.is_empty() {
        String::new()
    } else {
        format!(", \"licenses\": [{{\"expression\": \"{licence}\"}}]")
    };
    format!(
        "{{\"type\": \"library\", \"name\": \"{name}\", \"version\": \"{version}\", \"purl\": \
         \"pkg:cargo/{name}@{version}\"{licences}{hashes}}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_others_are_read_and_our_own_are_not() {
        let read = parse("tokio v1.52.0|MIT").unwrap();
        assert_eq!(
            (read.name.as_str(), read.version.as_str(), read.licence.as_str()),
            ("tokio", "1.52.0", "MIT")
        );
        let repeated = parse("serde_derive v1.0.1 (proc-macro)|MIT/Apache-2.0 (*)").unwrap();
        assert_eq!(repeated.licence, "MIT OR Apache-2.0");
        assert!(parse("base v0.1.0 (/src/crates/base)|Apache-2.0").is_none());
    }

    #[test]
    fn checksums_are_found_by_name_and_version() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"00ff\"\n";
        let row = row(
            &Component { name: "a".into(), version: "1.0.0".into(), licence: String::new() },
            &checksums(lock),
        );
        assert!(row.contains("00ff") && row.contains("pkg:cargo/a@1.0.0"), "{row}");
    }
}
