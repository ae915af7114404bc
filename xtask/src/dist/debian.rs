//! The Debian package. It has no scripts: the unit runs under a user of its own that systemd makes (`DynamicUser`), and
//! the operator enables it once the settings are right.

use super::{FILES_DATED, call, output, write};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const DESCRIPTION: &str = "\
Description: coordination and multi-region data store
 Althing is a strongly consistent coordination store that speaks the API of
 etcd v3, with locks whose fencing tokens are enforced, and, on the same nodes,
 a leaderless data store for several regions with quorums, mergeable types and
 visible conflicts.
";

/// As Debian wants it of a licence whose text is on every system.
const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: althing

Files: *
Copyright: Althing developers
License: Apache-2.0
 On Debian systems the text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
";

/// Makes the package from the staged files; nothing where there is no `dpkg-deb`.
pub fn package(out: &Path, stage: &Path, version: &str) -> io::Result<Option<PathBuf>> {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        return Ok(None);
    }
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let tree = out.join("debian");
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    call(Command::new("cp").arg("--recursive").arg(stage).arg(&tree))?;
    let documents = tree.join("usr/share/doc/althing");
    write(&documents.join("copyright"), COPYRIGHT.as_bytes())?;
    fs::remove_file(documents.join("LICENSE"))?;
    fs::rename(documents.join("CHANGELOG.md"), documents.join("changelog"))?;
    compress(&documents.join("changelog"))?;
    for page in fs::read_dir(tree.join("usr/share/man/man1"))? {
        compress(&page?.path())?;
    }
    write(&tree.join("DEBIAN/conffiles"), b"/etc/althing/althing.toml\n")?;
    write(&tree.join("DEBIAN/control"), control(&tree, architecture, version)?.as_bytes())?;
    call(Command::new("chmod").args(["--recursive", "u+rwX,go+rX,go-w"]).arg(&tree))?;
    let package = out.join(format!("althing_{version}_{architecture}.deb"));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zgzip", "--build"]).arg(&tree).arg(&package);
    // The same bytes for the same files.
    call(build.env("SOURCE_DATE_EPOCH", FILES_DATED))?;
    fs::remove_dir_all(tree)?;
    Ok(Some(package))
}

fn control(tree: &Path, architecture: &str, version: &str) -> io::Result<String> {
    let used =
        output(Command::new("du").args(["--summarize", "--block-size=1024", "--apparent-size"]).arg(tree))?;
    let used = String::from_utf8_lossy(&used);
    let size = used.split_whitespace().next().unwrap_or("0");
    Ok(format!(
        "Package: althing\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: Althing developers \
         <developers@althing.invalid>\nInstalled-Size: {size}\nDepends: libc6 (>= 2.36), libgcc-s1\nSection: \
         database\nPriority: optional\n{DESCRIPTION}"
    ))
}

fn compress(path: &Path) -> io::Result<()> {
    call(Command::new("gzip").args(["--best", "--no-name"]).arg(path))
}
