//! Configuration as a user meets it: what is printed, what is refused, and with which exit code.

use crate::process::althing;
use std::io::Write;
use std::process::Output;

fn serve(args: &[&str]) -> Output {
    althing().arg("serve").args(args).output().unwrap()
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn file_with(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn the_version_is_told() {
    let output = althing().arg("--version").output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, format!("althing {}\n", env!("CARGO_PKG_VERSION")).as_bytes());
}

#[test]
fn help_teaches_with_an_example() {
    for (args, lesson) in [(&["--help"][..], "To start:"), (&["serve", "--help"], "Example")] {
        let output = althing().args(args).output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains(lesson), "{args:?}");
    }
}

#[test]
fn flags_win_over_the_environment_and_the_environment_over_the_file() {
    let file = file_with("name = \"from-file\"\nheartbeat-ms = 11\nelection-ms = 1234\n");
    let output = althing()
        .args(["serve", "--print-config", "--name", "from-flag", "--config"])
        .arg(file.path())
        .env("ALTHING_NAME", "from-environment")
        .env("ALTHING_HEARTBEAT_MS", "22")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr_of(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("From --name. "), "{printed}");
    assert!(printed.contains("name = \"from-flag\""), "{printed}");
    assert!(printed.contains("From ALTHING_HEARTBEAT_MS. "), "{printed}");
    assert!(printed.contains("heartbeat-ms = 22"), "{printed}");
    assert!(printed.contains(&format!("From {}. ", file.path().display())), "{printed}");
    assert!(printed.contains("election-ms = 1234"), "{printed}");
}

#[test]
fn what_is_printed_is_a_file_that_prints_the_same_values() {
    let printed = serve(&["--print-config", "--name", "x", "--flush-bytes", "70000"]).stdout;
    let file = file_with(std::str::from_utf8(&printed).unwrap());
    let again = serve(&["--print-config", "--config", file.path().to_str().unwrap()]).stdout;
    let settings = |text: &[u8]| -> Vec<String> {
        let text = String::from_utf8(text.to_vec()).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    };
    assert_eq!(settings(&again), settings(&printed));
}

#[test]
fn what_cannot_be_used_is_refused_with_exit_code_2_and_a_reason() {
    let unknown = file_with("hartbeat-ms = 5\n");
    let unknown = unknown.path().to_str().unwrap();
    let table: &[(&[&str], &str)] = &[
        (&["--heartbeat-ms", "fast"], "a number of milliseconds from 1 to 10000"),
        (&["--heartbeat-ms", "-1"], "a number of milliseconds from 1 to 10000"),
        (&["--heartbeat-ms", "900"], "4500 or more would do"),
        (&["--client-addr", "localhost"], "an IP address and a port"),
        (&["--name", "x", "--initial-cluster", "a=h:1"], "does not list this member, \"x\""),
        (&["--config", unknown], "did you mean \"heartbeat-ms\"?"),
        (&["--config", "/nonexistent/althing.toml"], "cannot read /nonexistent/althing.toml"),
        (&["--no-such-flag"], "unexpected argument"),
        (&["surplus"], "unexpected argument"),
    ];
    for (args, reason) in table {
        let output = serve(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr_of(&output));
        assert!(stderr_of(&output).contains(reason), "{args:?}: {}", stderr_of(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn a_port_in_use_is_trouble_and_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::TempDir::new().unwrap();
    let data_dir = dir.path().to_str().unwrap();
    let output = serve(&["--client-addr", &address, "--data-dir", data_dir]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr_of(&output).contains(&address), "{}", stderr_of(&output));
    let output = serve(&["--client-addr", "127.0.0.1:0", "--http-addr", &address, "--data-dir", data_dir]);
    assert_eq!(output.status.code(), Some(1));
    let told = stderr_of(&output);
    assert!(told.contains(&address) && told.contains("--http-addr chooses another one"), "{told}");
}
