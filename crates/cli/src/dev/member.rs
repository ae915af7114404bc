//! One member of a development cluster: a child process that is restarted until shutdown.
//! Its warnings come out under its name.

use super::print_line;
use super::sweeper::Sweeper;
use crate::verbs;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr};
use tokio::sync::watch;

/// The pause before a member that died is started again.
const RESTART_PAUSE: Duration = Duration::from_millis(500);
/// How long a member may take to stop before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The directory and addresses of a member.
#[derive(Clone)]
pub struct MemberPlan {
    pub name: String,
    pub client: String,
    pub peer: String,
    pub http: String,
    pub cluster: String,
    /// The file of the secret that the members share.
    pub secret: PathBuf,
    pub region: Option<RegionPlan>,
    pub data_dir: PathBuf,
}

impl MemberPlan {
    pub fn region_name(&self) -> Option<&str> {
        self.region.as_ref().map(|region| region.name.as_str())
    }
}

/// The region of a member, if there are several.
#[derive(Clone)]
pub struct RegionPlan {
    pub name: String,
    /// Where nodes of the others are.
    pub peers: String,
    /// For each of the others the file of the secret that it shares with this one.
    pub secrets: String,
}

pub struct Member {
    plan: MemberPlan,
    child: Child,
    pid: Pid,
    sweeper: Arc<Sweeper>,
}

impl Member {
    pub fn start(
        plan: MemberPlan,
        stopping: &watch::Receiver<bool>,
        sweeper: &Arc<Sweeper>,
    ) -> std::io::Result<Member> {
        let mut child = spawn(&plan)?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let pid = pid.expect("a process that was started and not waited for has an id");
        sweeper.note_start(pid);
        if let Some(log) = child.stderr.take() {
            tokio::spawn(relay(plan.name.clone(), log, stopping.clone()));
        }
        Ok(Member { plan, child, pid, sweeper: sweeper.clone() })
    }

    /// Runs until shutdown; restarts the process when it dies before.
    pub async fn keep_alive(mut self, mut stopping: watch::Receiver<bool>) {
        loop {
            let name = self.plan.name.clone();
            tokio::select! {
                () = asked_to_stop(&mut stopping) => return self.stop().await,
                ended = self.child.wait() => {
                    self.sweeper.note_end(self.pid);
                    match ended {
                        Ok(status) => print_line(&format!("{name} ended ({status}), starting it again")),
                        Err(error) => print_line(&format!("{name} is lost: {error}")),
                    }
                }
            }
            tokio::select! {
                () = asked_to_stop(&mut stopping) => return,
                () = tokio::time::sleep(RESTART_PAUSE) => {}
            }
            match Member::start(self.plan.clone(), &stopping, &self.sweeper) {
                Ok(member) => self = member,
                Err(error) => print_line(&format!("{name} cannot be started again: {error}")),
            }
        }
    }

    async fn stop(mut self) {
        if self.child.id().is_some() {
            // It may have ended by itself.
            let _ = kill_process(self.pid, Signal::TERM);
        }
        if tokio::time::timeout(STOP_TIMEOUT, self.child.wait()).await.is_err() {
            print_line(&format!("{} does not stop and is killed", self.plan.name));
            let _ = self.child.kill().await;
        }
        self.sweeper.note_end(self.pid);
    }
}

async fn asked_to_stop(stopping: &mut watch::Receiver<bool>) {
    // A dropped sender means the same.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// In a process group of its own, so that Ctrl-C reaches it only through this process; it dies with this process, also when
/// that is killed.
fn spawn(plan: &MemberPlan) -> std::io::Result<Child> {
    let mut command = verbs::following(std::env::current_exe()?.as_os_str());
    command.arg("serve");
    if let Some(RegionPlan { name, peers, secrets }) = &plan.region {
        command.args(["--region", name, "--region-peers", peers, "--region-secret", secrets]);
    }
    command
        .args(["--name", &plan.name])
        .args(["--client-addr", &plan.client])
        .args(["--peer-addr", &plan.peer])
        .args(["--http-addr", &plan.http])
        .args(["--initial-cluster", &plan.cluster])
        .args(["--log-level", "warn"])
        .arg("--data-dir")
        .arg(&plan.data_dir)
        .arg("--cluster-secret-file")
        .arg(&plan.secret)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

/// What members log about each other while all of them stop is suppressed.
async fn relay(name: String, log: ChildStderr, stopping: watch::Receiver<bool>) {
    let mut lines = BufReader::new(log).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if !*stopping.borrow() {
            let _ = writeln!(std::io::stderr(), "{name}: {line}");
        }
    }
}
