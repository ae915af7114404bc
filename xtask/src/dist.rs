//! `cargo xtask dist`: what is given to others, from one binary: an archive, a Debian package, the list of all that is
//! compiled in (SBOM), and checksums. Man pages and completions come from the binary itself.

mod debian;
mod sbom;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

pub const HELP: &str = "\
  dist [--out DIR] [--binary FILE]
             builds the release binary, or takes FILE, and writes archive, Debian package, SBOM and checksums to DIR
             (default target/dist)
";

/// The shells for which the binary writes completions, and where packages keep them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/althing"),
    ("zsh", "usr/share/zsh/vendor-completions/_althing"),
    ("fish", "usr/share/fish/vendor_completions.d/althing.fish"),
];

struct DistOptions {
    out: PathBuf,
    binary: Option<PathBuf>,
}

pub fn run(root: &Path, arguments: Vec<String>) -> ExitCode {
    let Some(options) = parse(root, &arguments) else {
        eprint!("{HELP}");
        return ExitCode::from(2);
    };
    match make(root, &options) {
        Ok(files) => {
            files.iter().for_each(|file| println!("{}", file.display()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("dist: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(root: &Path, arguments: &[String]) -> Option<DistOptions> {
    let mut options = DistOptions { out: root.join("target/dist"), binary: None };
    for pair in arguments.chunks(2) {
        match pair {
            [name, value] if name == "--out" => options.out = value.into(),
            [name, value] if name == "--binary" => options.binary = Some(value.into()),
            _ => return None,
        }
    }
    Some(options)
}

/// Makes everything, and returns the files that are for others.
fn make(root: &Path, options: &DistOptions) -> io::Result<Vec<PathBuf>> {
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => build(root)?,
    };
    let version = version(root)?;
    let name = format!("althing-{version}-linux-{}", std::env::consts::ARCH);
    let stage = options.out.join("stage");
    // An earlier run may have left files that are made no longer.
    if stage.exists() {
        fs::remove_dir_all(&stage)?;
    }
    fs::create_dir_all(&options.out)?;
    fill(root, &binary, &stage)?;
    let archive = pack(&options.out, &stage, &name)?;
    let mut files = vec![archive];
    match debian::package(&options.out, &stage, &version)? {
        Some(package) => files.push(package),
        None => eprintln!("dist: there is no dpkg-deb here, so no Debian package is made"),
    }
    let list = options.out.join(format!("{name}.cdx.json"));
    fs::write(&list, sbom::render(root, &version)?)?;
    files.push(list);
    files.push(sum(&options.out, &files)?);
    Ok(files)
}

fn build(root: &Path) -> io::Result<PathBuf> {
    call(Command::new("cargo").current_dir(root).args([
        "build",
        "--profile",
        "dist",
        "--locked",
        "-p",
        "althing",
    ]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("dist/althing"))
}

fn version(root: &Path) -> io::Result<String> {
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = "));
    line.map(|quoted| quoted.trim_matches('"').to_owned())
        .ok_or_else(|| io::Error::other("Cargo.toml has no version"))
}

/// Lays the files out as a system has them.
fn fill(root: &Path, binary: &Path, stage: &Path) -> io::Result<()> {
    let program = stage.join("usr/bin/althing");
    copy(binary, &program)?;
    call(Command::new("strip").arg("--strip-unneeded").arg(&program))?;
    call(Command::new(&program).arg("man").arg(stage.join("usr/share/man/man1")))?;
    for (shell, path) in COMPLETIONS {
        let script = output(Command::new(&program).args(["completion", shell]))?;
        write(&stage.join(path), &script)?;
    }
    copy(
        &root.join("deploy/systemd/althing.service"),
        &stage.join("usr/lib/systemd/system/althing.service"),
    )?;
    copy(&root.join("deploy/systemd/althing.toml"), &stage.join("etc/althing/althing.toml"))?;
    for document in ["README.md", "LICENSE", "CHANGELOG.md", "COMPAT.md", "SECURITY.md"] {
        copy(&root.join(document), &stage.join("usr/share/doc/althing").join(document))?;
    }
    let monitoring = stage.join("usr/share/doc/althing/monitoring");
    for file in ["alerts.yaml", "grafana-dashboard.json"] {
        copy(&root.join("deploy/monitoring").join(file), &monitoring.join(file))?;
    }
    Ok(())
}

/// The date of all files in packages, in seconds since 1970: the same bytes whenever they are made, and not so old that a
/// package manager takes it for a mistake.
const FILES_DATED: &str = "1767225600";

/// The same bytes for the same files, whenever it is made.
fn pack(out: &Path, stage: &Path, name: &str) -> io::Result<PathBuf> {
    let archive = out.join(format!("{name}.tar.gz"));
    let transform = format!("s,^\\.,{name},");
    let mut tar = Command::new("tar");
    tar.args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        &format!("--mtime=@{FILES_DATED}"),
        "--mode=u+rwX,go+rX,go-w",
    ]);
    tar.arg("--transform").arg(transform).arg("--create").arg("--file").arg(&archive);
    tar.arg("--use-compress-program=gzip --no-name").arg("--directory").arg(stage).arg(".");
    call(&mut tar)?;
    Ok(archive)
}

fn sum(out: &Path, files: &[PathBuf]) -> io::Result<PathBuf> {
    let names = files.iter().filter_map(|file| file.file_name());
    let sums = output(Command::new("sha256sum").current_dir(out).args(names))?;
    let path = out.join("SHA256SUMS");
    fs::write(&path, sums)?;
    Ok(path)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let describe = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", from.display()));
    fs::create_dir_all(to.parent().unwrap_or(Path::new(".")))?;
    fs::copy(from, to).map(drop).map_err(describe)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    fs::write(path, bytes)
}

fn call(command: &mut Command) -> io::Result<()> {
    output(command).map(drop)
}

/// What a program prints; that it fails is an error with what it says.
fn output(command: &mut Command) -> io::Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
    if out.status.success() {
        Ok(out.stdout)
    } else {
        Err(io::Error::other(format!("{name}: {}", String::from_utf8_lossy(&out.stderr).trim())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    /// The binary that `cargo test --workspace` builds beside this test.
    fn built() -> Option<PathBuf> {
        let test = std::env::current_exe().ok()?;
        let binary = test.parent()?.parent()?.join("althing");
        binary.exists().then_some(binary)
    }

    fn listing(archive: &Path) -> String {
        String::from_utf8_lossy(
            &output(Command::new("tar").arg("--list").arg("--file").arg(archive)).unwrap(),
        )
        .into_owned()
    }

    #[test]
    fn everything_that_is_shipped_is_complete_and_works() {
        let Some(binary) = built() else {
            eprintln!("skipped: the binary althing is not built; `cargo test --workspace` builds it");
            return;
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let out = std::env::temp_dir().join(format!("althing-dist-{}", std::process::id()));
        let options = DistOptions { out: out.clone(), binary: Some(binary) };
        let files = make(root, &options).unwrap();
        let files_in_archive = listing(&files[0]);
        let wanted = [
            "usr/bin/althing\n",
            "usr/lib/systemd/system/althing.service\n",
            "etc/althing/althing.toml\n",
            "usr/share/man/man1/althing.1\n",
            "usr/share/man/man1/althing-member-add.1\n",
            "usr/share/bash-completion/completions/althing\n",
        ];
        for path in wanted {
            assert!(files_in_archive.contains(path), "{path} is not in {files_in_archive}");
        }
        call(Command::new("sha256sum").current_dir(&out).args(["--check", "SHA256SUMS"])).unwrap();
        let sbom = fs::read_to_string(&files[files.len() - 2]).unwrap();
        assert!(sbom.contains("\"pkg:cargo/tokio@") && sbom.contains("\"CycloneDX\""), "{sbom}");
        if let Some(package) = files.iter().find(|file| file.extension().is_some_and(|it| it == "deb")) {
            let installed = out.join("installed");
            install(package, &installed);
            let program = installed.join("usr/bin/althing");
            let version =
                String::from_utf8(output(Command::new(&program).arg("--version")).unwrap()).unwrap();
            assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
            serve_once(&program, &out.join("data"));
            assert!(installed.join("usr/share/man/man1/althing.1.gz").exists());
            assert!(installed.join("usr/share/doc/althing/copyright").exists());
            let control = output(Command::new("dpkg-deb").arg("--info").arg(package)).unwrap();
            assert!(String::from_utf8_lossy(&control).contains("conffiles"), "settings survive an upgrade");
        } else {
            eprintln!("skipped: no dpkg-deb, so no Debian package was made");
        }
        fs::remove_dir_all(out).unwrap();
    }

    /// As on a machine that has nothing yet, but below a directory; without dpkg the files alone are laid out.
    fn install(package: &Path, root: &Path) {
        for directory in ["var/lib/dpkg/info", "var/lib/dpkg/updates"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
        if Command::new("dpkg").arg("--version").output().is_err() {
            call(Command::new("dpkg-deb").arg("--extract").arg(package).arg(root)).unwrap();
            return;
        }
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", root.display())).arg("--log=/dev/null");
        // What it depends on is on this machine, not below the directory.
        dpkg.args(["--force-not-root", "--force-depends", "--force-bad-path", "--install"]).arg(package);
        call(&mut dpkg).unwrap();
        let status = fs::read_to_string(root.join("var/lib/dpkg/status")).unwrap();
        assert!(status.contains("Package: althing\nStatus: install ok installed"), "{status}");
        if let Ok(told) = Command::new("lintian").args(["--fail-on", "error"]).arg(package).output() {
            assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stdout));
        }
    }

    /// Serves from an empty directory until its health is asked for and good.
    fn serve_once(program: &Path, data: &Path) {
        let free = || TcpListener::bind("127.0.0.1:0").unwrap();
        let held = [free(), free(), free()];
        let [client, peer, http] = held.each_ref().map(|port| port.local_addr().unwrap());
        drop(held);
        let mut serve = Command::new(program);
        serve.arg("serve").arg("--data-dir").arg(data);
        for (flag, address) in [("--client-addr", client), ("--peer-addr", peer), ("--http-addr", http)] {
            serve.arg(flag).arg(address.to_string());
        }
        let mut served = serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(300);
        let mut told = String::new();
        while !told.starts_with("HTTP/1.1 200") && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
            told = ask_health(client).unwrap_or_default();
        }
        served.kill().unwrap();
        served.wait().unwrap();
        assert!(told.starts_with("HTTP/1.1 200") && told.contains("\"true\""), "{told}");
    }

    fn ask_health(place: SocketAddr) -> io::Result<String> {
        let mut stream = TcpStream::connect(place)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut told = String::new();
        stream.read_to_string(&mut told)?;
        Ok(told)
    }
}
