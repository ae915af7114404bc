//! The console of a node with many keys, watches and locks: its lists are paged, and each page is the first of all.
//!
//! The size is set by `CONSOLE_LOAD_KEYS`, `CONSOLE_LOAD_WATCHES` and `CONSOLE_LOAD_LOCKS`. With `CONSOLE_LOAD_SECONDS` each page
//! is left open for so long, and its first paint and the processor time of the node are printed: `cargo xtask console-load`.

use super::browser::Browser;
use super::{address, open, settle};
use crate::locks::{connect, lease};
use crate::process::{Member, Plan};
use crate::rest::Rest;
use crate::tour::block_on;
use proto::etcdserverpb::kv_client::KvClient;
use proto::etcdserverpb::request_op::Request as Op;
use proto::etcdserverpb::watch_client::WatchClient;
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{PutRequest, RequestOp, TxnRequest, WatchCreateRequest, WatchRequest};
use proto::lock::TryLockRequest;
use std::io::Write;
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;

/// Puts of one transaction.
const TOGETHER: u64 = 100;
/// Watches of one stream.
const OF_A_STREAM: u64 = 500;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

async fn fill_keys(member: &Member, keys: u64) {
    let mut kv = KvClient::connect(member.endpoint()).await.unwrap();
    for first in (0..keys).step_by(TOGETHER as usize) {
        let put = |nth: u64| {
            let key = format!("load/{:03}/{nth:07}", nth / 10_000).into();
            let put = PutRequest { key, value: "a value of some words".into(), ..PutRequest::default() };
            RequestOp { request: Some(Op::RequestPut(put)) }
        };
        let success = (first..keys.min(first + TOGETHER)).map(put).collect();
        kv.txn(TxnRequest { success, ..TxnRequest::default() }).await.unwrap();
    }
}

/// Watches that stay for as long as what is returned.
async fn begin_watches(member: &Member, watches: u64) -> Vec<mpsc::Sender<WatchRequest>> {
    let mut streams = Vec::new();
    for first in (0..watches).step_by(OF_A_STREAM as usize) {
        let mut client = WatchClient::connect(member.endpoint()).await.unwrap();
        let (sender, receiver) = mpsc::channel(OF_A_STREAM as usize);
        for nth in first..watches.min(first + OF_A_STREAM) {
            let create =
                WatchCreateRequest { key: format!("watched/{nth}").into(), ..WatchCreateRequest::default() };
            sender
                .send(WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) })
                .await
                .unwrap();
        }
        let mut answers = client.watch(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        tokio::spawn(async move { while let Ok(Some(_)) = answers.message().await {} });
        streams.push(sender);
    }
    streams
}

async fn take_locks(member: &Member, locks: u64) {
    let mut client = connect(member).await;
    let lease_id = lease(&mut client, 3_600).await;
    for nth in 0..locks {
        let name = format!("load/{nth:05}");
        let request =
            TryLockRequest { name, lease_id, metadata: "".into(), holder_id: format!("holder-{nth}") };
        assert!(client.try_lock(request).await.unwrap().into_inner().acquired);
    }
}

/// Seconds of processor time so far.
fn busy(member: &Member) -> f64 {
    let metrics = member.http("GET", "/metrics").body;
    let line = metrics.lines().find(|line| line.starts_with("process_cpu_seconds_total "));
    line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a process tells its time")
}

fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn measure(browser: &Browser, member: &Member, name: &str, seconds: u64) {
    if seconds == 0 {
        return;
    }
    browser.goto("about:blank");
    let idle = busy(member);
    std::thread::sleep(Duration::from_secs(seconds));
    let idle = busy(member) - idle;
    open(browser, &address(Rest::of(member)), name);
    settle(browser);
    let paint =
        browser.run("return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1");
    let begun = busy(member);
    std::thread::sleep(Duration::from_secs(seconds));
    let percent = |time: f64| 100.0 * time / seconds as f64;
    say(&format!(
        "{name}: first paint {:.0} ms, processor {:.2} % with the page open, {:.2} % without",
        paint.as_f64().unwrap_or(-1.0),
        percent(busy(member) - begun),
        percent(idle)
    ));
}

#[test]
fn large_lists_are_shown_by_their_first_pages() {
    let Some(browser) = Browser::start() else { return };
    let member = Plan::single().start_ready();
    let [keys, watches, locks] = [("KEYS", 500), ("WATCHES", 120), ("LOCKS", 60)]
        .map(|(name, default)| number(&format!("CONSOLE_LOAD_{name}"), default));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(fill_keys(&member, keys));
    let _streams = runtime.block_on(begin_watches(&member, watches));
    block_on(take_locks(&member, locks));
    let place = address(Rest::of(&member));

    open(&browser, &place, "keys/load%2F");
    browser.until_says("000/");
    open(&browser, &place, "leases");
    let shown = format!(
        "return document.querySelectorAll('#panel-watches tbody tr').length === 50 \
                         && document.querySelector('#panel-watches').innerText.includes('{} of')",
        grouped(watches)
    );
    browser.until("a page of the watches is shown, and how many there are", &shown);
    browser.click("#panel-watches button", "Next");
    browser.until_says("page 2");
    browser.until_says("watched/50");
    open(&browser, &place, "locks");
    browser.until_says(&format!("{} locks", grouped(locks)));
    browser.until_says("load/00049");
    browser.click("#panel-locks button", "Next");
    browser.until_says("load/00050");
    let filter = "const field = document.querySelector('main input[type=search]'); field.value = '00007'; \
                  field.dispatchEvent(new Event('input'))";
    browser.run(filter);
    browser.until(
        "the filter finds what lay on another page",
        "return document.querySelectorAll('#panel-locks tbody tr').length === 1 \
         && document.querySelector('#panel-locks tbody').innerText.includes('load/00007')",
    );
    let seconds = number("CONSOLE_LOAD_SECONDS", 0);
    browser.run("location.reload()");
    for name in ["overview", "keys", "locks", "leases"] {
        measure(&browser, &member, name, seconds);
    }
    assert_eq!(browser.log(), Vec::<String>::new());
}

/// As the page groups digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let (head, rest) = digits.split_at(first);
    let groups = rest.as_bytes().chunks(3).map(|group| std::str::from_utf8(group).unwrap());
    Some(head).filter(|head| !head.is_empty()).into_iter().chain(groups).collect::<Vec<_>>().join(",")
}
