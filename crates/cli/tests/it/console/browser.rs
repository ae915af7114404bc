//! A Chromium for tests, driven over WebDriver: started, looked at, and ended with the test.
//! WebDriver is JSON over HTTP, and five of its commands are enough here; a library for it brings forty crates along.

use crate::process::PATIENCE;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The program that drives the browser, if there is one: `CHROMEDRIVER`, or in the path.
pub fn driver() -> Option<PathBuf> {
    let named = std::env::var_os("CHROMEDRIVER").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        || std::env::split_paths(&path).map(|dir| dir.join("chromedriver")).find(|file| file.is_file());
    named.or_else(found)
}

pub struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// None, with a line that says so, where no driver is found; with `ALTHING_REQUIRE_BROWSER` that is a failure.
    pub fn start() -> Option<Browser> {
        let Some(program) = driver() else {
            assert!(
                std::env::var_os("ALTHING_REQUIRE_BROWSER").is_none(),
                "ALTHING_REQUIRE_BROWSER is set, and no chromedriver is in CHROMEDRIVER or PATH"
            );
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                b"skipped: no chromedriver in CHROMEDRIVER or PATH\n",
            );
            return None;
        };
        let mut driver = Command::new(program)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = loop {
            let line = lines.next().expect("the driver says its port").unwrap();
            if let Some((_, rest)) = line.split_once("successfully on port ") {
                break rest.trim_end_matches('.').parse::<u16>().unwrap();
            }
        };
        // Nothing that the driver says later is of interest, but its pipe stays open.
        std::thread::spawn(move || lines.for_each(drop));
        let profile = TempDir::new().unwrap();
        let flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--window-size=1200,760",
        ];
        let flags = flags.iter().map(|flag| (*flag).to_owned());
        let folder = format!("--user-data-dir={}", profile.path().display());
        let capabilities = json!({
            "goog:chromeOptions": { "args": flags.chain([folder]).collect::<Vec<_>>() },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let wanted = json!({ "capabilities": { "alwaysMatch": capabilities } });
        let begun = ask_driver(address, "/session", &wanted);
        let session = begun["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {begun}")).to_owned();
        Some(Browser { driver, address, session, _profile: profile })
    }

    pub fn goto(&self, place: &str) {
        self.ask("url", &json!({ "url": place }));
    }

    pub fn run(&self, script: &str) -> Value {
        self.ask("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// What stands on the page.
    pub fn text(&self) -> String {
        self.run("return document.body ? document.body.innerText : ''").as_str().unwrap_or("").to_owned()
    }

    /// Until the script's answer is true.
    pub fn until(&self, what: &str, script: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.run(script) != true {
            if Instant::now() > deadline {
                panic!("waited too long until {what}; the page says:\n{}", self.text());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn until_says(&self, text: &str) {
        let script = format!("return document.body.innerText.includes({})", json!(text));
        self.until(&format!("the page says `{text}`"), &script);
    }

    /// Clicks what has this text.
    pub fn click(&self, kind: &str, text: &str) {
        let find = format!(
            "[...document.querySelectorAll({})].find(node => node.textContent.trim() === {})",
            json!(kind),
            json!(text)
        );
        self.until(&format!("there is {kind} `{text}`"), &format!("return Boolean({find})"));
        self.run(&format!("{find}.click()"));
    }

    fn ask(&self, path: &str, body: &Value) -> Value {
        ask_driver(self.address, &format!("/session/{}/{path}", self.session), body)
    }

    /// Everything that the browser's log has got since the last call.
    pub fn log(&self) -> Vec<String> {
        let entries = self.ask("se/log", &json!({ "type": "browser" }));
        entries
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["message"].as_str().unwrap().to_owned())
            .collect()
    }

    fn devtools(&self, command: &str, params: &Value) -> Value {
        self.ask("goog/cdp/execute", &json!({ "cmd": command, "params": params }))
    }

    /// Presses a key, as a person would.
    pub fn press(&self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let params = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            self.devtools("Input.dispatchKeyEvent", &params);
        }
    }

    pub fn set_size(&self, width: u32, height: u32) {
        let params = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", &params);
    }

    pub fn set_scheme(&self, scheme: &str) {
        let params = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", &params);
    }

    /// A picture of the page, if pictures are wanted: `CONSOLE_SCREENSHOTS` names the folder.
    pub fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("CONSOLE_SCREENSHOTS").map(PathBuf::from) else { return };
        let size = self.run("return [innerWidth, innerHeight]");
        // Small files; what a small screen shows is shown as it is.
        let scale = if size[0].as_u64() > Some(1_000) { 0.7 } else { 1.0 };
        let clip = json!({ "x": 0, "y": 0, "width": size[0], "height": size[1], "scale": scale });
        let shot = self.devtools("Page.captureScreenshot", &json!({ "format": "png", "clip": clip }));
        let bytes = STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), bytes).unwrap();
    }
}

fn ask_driver(address: SocketAddr, target: &str, body: &Value) -> Value {
    let answer = exchange(address, "POST", target, &body.to_string()).expect("the driver answers");
    let answer: Value = serde_json::from_slice(&answer).expect("a driver answers in JSON");
    assert!(answer["value"]["error"].is_null(), "{target} {body}: {answer}");
    answer["value"].clone()
}

/// One request; the driver keeps the connection, so its answer ends where it says.
fn exchange(address: SocketAddr, method: &str, target: &str, body: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(told) = line.strip_prefix("content-length:") {
            length = told.trim().parse().expect("a length is a number");
        }
        if line.is_empty() {
            break;
        }
    }
    let mut answer = vec![0; length];
    reader.read_exact(&mut answer)?;
    Ok(answer)
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its session, the driver by itself does not end it.
        let _ = exchange(self.address, "DELETE", &format!("/session/{}", self.session), "");
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
