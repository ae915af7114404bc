//! The member that is attacked: its process on a directory of its own, its users, and the requests that it takes.

use crate::honest::Client;
use crate::wire::Dialler;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const PEM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tls/tests/pem");
const START_PATIENCE: Duration = Duration::from_secs(60);
/// A key whose value is large, on both ports.
pub const LARGE_KEY: &str = "large";
const LARGE_BYTES: usize = 600_000;
const PASSWORD: &str = "root-password";

/// Where the member is, and who asks.
#[derive(Clone)]
pub struct Target {
    pub client: SocketAddr,
    pub rest: SocketAddr,
    pub peer: SocketAddr,
    /// With auth on.
    pub token: Option<String>,
}

impl Target {
    pub fn address(&self, is_rest: bool) -> SocketAddr {
        if is_rest { self.rest } else { self.client }
    }

    /// A read of a key.
    pub fn read_of(&self, is_rest: bool, key: &str) -> Vec<u8> {
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        self.read_as(is_rest, key, bearer.as_deref())
    }

    pub fn read_as(&self, is_rest: bool, key: &str, authorization: Option<&str>) -> Vec<u8> {
        if is_rest {
            self.request(is_rest, "GET", &format!("/v1/data/{key}"), "", authorization)
        } else {
            let body = format!(r#"{{"key":"{}"}}"#, base64(key));
            self.request(is_rest, "POST", "/v3/kv/range", &body, authorization)
        }
    }

    pub fn write_of(&self, is_rest: bool, key: &str, value: &str) -> Vec<u8> {
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        if is_rest {
            let body = format!(r#"{{"value":"{value}"}}"#);
            self.request(is_rest, "PUT", &format!("/v1/data/{key}"), &body, bearer.as_deref())
        } else {
            let body = format!(r#"{{"key":"{}","value":"{}"}}"#, base64(key), base64(value));
            self.request(is_rest, "POST", "/v3/kv/put", &body, bearer.as_deref())
        }
    }

    fn request(
        &self,
        is_rest: bool,
        method: &str,
        path: &str,
        body: &str,
        authorization: Option<&str>,
    ) -> Vec<u8> {
        let authorization =
            authorization.map_or(String::new(), |value| format!("authorization: {value}\r\n"));
        let length = match body.len() {
            0 => String::new(),
            len => format!("content-type: application/json\r\ncontent-length: {len}\r\n"),
        };
        let host = self.address(is_rest);
        format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n{authorization}{length}\r\n{body}").into_bytes()
    }
}

/// As the gateway takes bytes.
fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |bytes: &[u8]| {
        let number =
            (0..3).fold(0, |number, at| number << 8 | u32::from(bytes.get(at).copied().unwrap_or(0)));
        let letter = |at: usize| {
            let index = number >> (18 - 6 * at) & 63;
            if at <= bytes.len() { char::from(LETTERS[index as usize]) } else { '=' }
        };
        [letter(0), letter(1), letter(2), letter(3)]
    };
    text.as_bytes().chunks(3).flat_map(group).collect()
}

pub struct TestMember {
    process: Child,
    dir: PathBuf,
    pub target: Target,
}

/// How the member is secured.
#[derive(Clone, Copy)]
pub struct Security {
    pub tls: bool,
    pub auth: bool,
}

impl TestMember {
    pub fn start(althing: &Path, security: Security, dialler: &Dialler) -> Result<TestMember, String> {
        let dir = std::env::temp_dir().join(format!("althing-hostile-{}", std::process::id()));
        let ports = free_ports().map_err(|error| error.to_string())?;
        let [client, peer, rest] = ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let mut command = Command::new(althing);
        command
            .arg("serve")
            .args(["--client-addr", &client.to_string(), "--peer-addr", &peer.to_string()])
            .args(["--http-addr", &rest.to_string(), "--log-level", "error"])
            .arg("--data-dir")
            .arg(&dir);
        if security.tls {
            let [cert, key] = ["server.pem", "server.key"].map(|name| format!("{PEM}/{name}"));
            command.args(["--cert-file", &cert, "--key-file", &key]);
        }
        let process = command
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", althing.display()))?;
        let target = Target { client, rest, peer, token: None };
        let mut member = TestMember { process, dir, target };
        let deadline = Instant::now() + START_PATIENCE;
        while !member.takes_large_values(dialler) {
            if Instant::now() > deadline {
                return Err("the member does not serve".to_owned());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        if security.auth {
            member.target.token = Some(member.turn_auth_on(althing, security)?);
            while !member.takes_large_values(dialler) {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(member)
    }

    fn takes_large_values(&self, dialler: &Dialler) -> bool {
        let large = "x".repeat(LARGE_BYTES);
        [false, true].into_iter().all(|is_rest| {
            Client::connect(dialler, &self.target, is_rest)
                .and_then(|mut client| client.exchange(&self.target.write_of(is_rest, LARGE_KEY, &large)))
                .is_ok_and(|status| status == 200)
        })
    }

    /// With one user, whose token comes back.
    fn turn_auth_on(&self, althing: &Path, security: Security) -> Result<String, String> {
        let run = |args: &[&str]| {
            let endpoint =
                format!("{}://{}", if security.tls { "https" } else { "http" }, self.target.client);
            let mut command = Command::new(althing);
            command.args(args).args(["--endpoints", &endpoint]);
            if security.tls {
                command.args(["--cacert", &format!("{PEM}/ca.pem")]);
            }
            let output = command.output().map_err(|error| error.to_string())?;
            let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
            if output.status.success() { Ok(told(&output.stdout)) } else { Err(told(&output.stderr)) }
        };
        run(&["user", "add", "root", "--new-user-password", PASSWORD])?;
        run(&["user", "grant-role", "root", "root"])?;
        run(&["auth", "enable"])?;
        run(&["auth", "login", "--user", &format!("root:{PASSWORD}")])
    }

    pub fn memory_mib(&self, name: &str) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() >> 10
    }
}

impl Drop for TestMember {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn free_ports() -> std::io::Result<[u16; 3]> {
    let listeners = [
        TcpListener::bind("127.0.0.1:0")?,
        TcpListener::bind("127.0.0.1:0")?,
        TcpListener::bind("127.0.0.1:0")?,
    ];
    let [a, b, c] = &listeners;
    Ok([a.local_addr()?.port(), b.local_addr()?.port(), c.local_addr()?.port()])
}
