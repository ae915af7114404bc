//! The console in a real Chromium: every page on a cluster of three nodes and two regions with data in it, faults that must
//! be seen, logins, and what a small screen shows. With `CONSOLE_SCREENSHOTS=DIR` the pictures of the guide are made.

mod answers;
mod browser;
mod editing;
mod load;
mod look;

use crate::data_auth::{manage, turn_on};
use crate::process::{Member, Plan, althing, until};
use crate::regions::world::World;
use crate::rest::Rest;
use crate::talking::Talking;
use browser::Browser;
use std::process::Stdio;

/// Every page with a text that it shows on the cluster below.
const PAGES: [(&str, &str); 10] = [
    ("overview", "members healthy"),
    ("keys", "app/"),
    ("data", "greeting"),
    ("locks", "jobs/nightly"),
    ("leases", "Watches by node"),
    ("conflicts", "contested"),
    ("regions", "Round trips"),
    ("access", "off: every caller may do everything"),
    ("maintenance", "election-ms"),
    ("metrics", "Puts applied"),
];

fn address(rest: Rest) -> String {
    format!("http://{}", rest.0)
}

/// Two clients fight for a lock: one holds it, the other waits.
fn fight(member: &Member, name: &str) -> [Talking; 2] {
    let start = |holder: &str| {
        let mut command = althing();
        command.env("ALTHING_ENDPOINTS", member.client.to_string());
        let started = command
            .args(["lock", name, "--ttl", "60s"])
            .args(["--id", holder])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        Talking::of(started.spawn().unwrap())
    };
    let mut holder = start("worker-1");
    holder.line();
    [holder, start("worker-2")]
}

fn fill(world: &World) {
    let rest = world.regions[0].rest(0);
    for (key, value) in [
        ("app/config", r#"{\"workers\": 4, \"mode\": \"steady\"}"#),
        ("app/config", r#"{\"workers\": 8, \"mode\": \"steady\"}"#),
        ("app/motd", "hello"),
        ("services/web/1", "10.0.0.7:80"),
        ("services/web/2", "10.0.0.8:80"),
        ("zz-last", "the end"),
    ] {
        let answer = rest.put(&format!("/v1/coord/key?key={key}"), &format!(r#"{{"value":"{value}"}}"#));
        assert_eq!(answer.status, 200, "{}", answer.json());
    }
    assert_eq!(rest.put("/v1/data/greeting", r#"{"value":{"text":"hello","to":"all"}}"#).status, 200);
    for _ in 0..3 {
        assert_eq!(rest.post("/v1/crdt/counter:visits/increment", r#"{"amount":5}"#).status, 200);
    }
    for tag in ["red", "green", "blue"] {
        assert_eq!(rest.post("/v1/crdt/set:tags/add", &format!(r#"{{"element":"{tag}"}}"#)).status, 200);
    }
    contest(world);
}

/// Both regions write a key while neither hears of the other.
fn contest(world: &World) {
    world.cables.cut();
    for (region, place) in world.regions.iter().zip(["Reykjavik", "Oslo"]) {
        let body = format!(r#"{{"value":{{"name":"Alice","city":"{place}"}}}}"#);
        assert_eq!(region.rest(0).put("/v1/data/contested", &body).status, 200);
    }
    world.cables.mend();
    until("the conflict is known", || {
        let known = world.regions[0].rest(1).get("/v1/conflicts").json();
        known["conflicts"].as_array()?.iter().find(|conflict| conflict["key"] == "contested").map(drop)
    });
}

fn open(browser: &Browser, place: &str, page: &str) {
    browser.goto(&format!("{place}/#/{page}"));
    let name = page.split('/').next().unwrap();
    browser.until("the page names itself", &format!("return document.body.dataset.console === '{name}'"));
}

/// Nothing is wider than the window; tables scroll within their panels.
fn assert_fits(browser: &Browser, page: &str) {
    let wide = browser.run("return document.documentElement.scrollWidth - window.innerWidth");
    assert!(wide.as_i64().unwrap() <= 0, "{page} is {wide} pixels too wide");
}

fn settle(browser: &Browser) {
    let done = "return !document.querySelector('[data-state=loading]')";
    browser.until("nothing is loading", done);
}

#[test]
fn every_page_shows_what_the_cluster_holds_and_nothing_is_wrong_in_the_browser() {
    let Some(browser) = Browser::start() else { return };
    let world = World::start(2, 3);
    fill(&world);
    let _clients = fight(&world.regions[0].members[0], "jobs/nightly");
    let place = address(world.regions[0].rest(0));
    for (page, text) in PAGES {
        open(&browser, &place, page);
        browser.until_says(text);
        settle(&browser);
        browser.picture(page);
        browser.set_size(360, 740);
        settle(&browser);
        assert_fits(&browser, page);
        if page == "overview" {
            browser.picture("overview-360");
        }
        browser.set_size(1200, 760);
    }
    browser.set_scheme("dark");
    open(&browser, &place, "overview");
    browser.until_says("2 regions");
    settle(&browser);
    browser.picture("overview-dark");
    browser.set_scheme("light");
    look_closer(&browser, &place);
    assert_eq!(browser.log(), Vec::<String>::new());
}

/// The answers to a user's questions, each a click or two away.
fn look_closer(browser: &Browser, place: &str) {
    open(browser, place, "keys/app%2F");
    browser.click("button.name", "config");
    browser.until_says("version 2");
    browser.until_says("\"workers\": 8");
    browser.click("button", "Compare");
    browser.until_says("at revision");
    browser.picture("key");
    open(browser, place, "locks/jobs%2Fnightly");
    browser.until_says("worker-2");
    browser.until_says("holds");
    browser.picture("lock");
    open(browser, place, "data/default/contested");
    browser.until_says("Why this value");
    browser.picture("why");
    open(browser, place, "conflicts");
    browser.until_says("contested");
    browser.run("document.querySelector('.conflict .row').click()");
    browser.until_says("Restore the losing value");
    browser.until_says("Neither had seen the other");
    browser.picture("conflict");
    browser.run("dispatchEvent(new KeyboardEvent('keydown', { key: 'k', ctrlKey: true }))");
    browser.until("the command box is open", "return Boolean(document.querySelector('#command'))");
    let typed = "const box = document.querySelector('#command'); box.value = 'get app/'; box.dispatchEvent(new Event('input'))";
    browser.run(typed);
    browser.until_says("get app/config");
    browser.picture("commands");
}

#[test]
fn a_leader_that_fails_and_a_lock_that_changes_hands_are_seen() {
    let Some(browser) = Browser::start() else { return };
    let mut members: Vec<Member> = Plan::cluster(3).iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    let leader = until("one leads", || members.iter().position(Member::leads));
    let (follower, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let place = address(Rest::of(&members[follower]));
    open(&browser, &place, "overview");
    browser.until_says("3 of 3 members healthy");

    let [holder, waiter] = fight(&members[other], "printer");
    open(&browser, &place, "locks/printer");
    browser.until_says("worker-1");
    browser.until_says("worker-2");
    holder.interrupt();
    browser.until(
        "the waiter has the lock",
        "return document.querySelector('#panel-lock dd')?.textContent === 'worker-2'",
    );
    waiter.interrupt();

    open(&browser, &place, "overview");
    browser.until_says("3 of 3 members healthy");
    members[leader].kill();
    browser.until_says("2 of 3 members healthy");
    browser.until_says("does not answer");
    let names =
        format!("return !document.querySelector('#summary').textContent.includes('leader m{leader}')");
    browser.until("another one leads", &names);
    browser.until_says("lost the connection to");
    browser.picture("leader-lost");
    assert_eq!(browser.log(), Vec::<String>::new());
}

#[test]
fn with_auth_on_the_console_asks_for_a_login_and_says_what_it_hides() {
    let Some(browser) = Browser::start() else { return };
    let member = Plan::single().start_ready();
    let rest = Rest::of(&member);
    rest.wait_for_ring(1);
    assert_eq!(rest.put("/v1/namespaces/shop", "{}").status, 201);
    turn_on(&member);
    let place = address(rest);
    let login = |user: &str, password: &str| {
        format!(
            "const form = document.querySelector('form.login'); form.elements.user.value = '{user}'; \
                 form.elements.password.value = '{password}'; form.requestSubmit()"
        )
    };
    browser.goto(&place);
    browser.until_says("Auth is on");
    browser.run(&login("root", "rpw"));
    browser.until_says("1 of 1 member healthy");
    open(&browser, &place, "access");
    browser.until_says("reader");
    assert_eq!(browser.log(), Vec::<String>::new());
    assert_eq!(browser.run("return document.cookie + localStorage.length + sessionStorage.length"), "00");
    browser.picture("access-auth");

    browser.click("button", "Log out");
    browser.until_says("Auth is on");
    browser.run(&login("reader", "wrong"));
    browser.until("the refusal is shown", "return Boolean(document.querySelector('.toast.bad'))");
    let told = browser.log();
    let is_of_login = |line: &String| line.contains("/v1/session") && line.contains("401");
    assert!(told.iter().all(is_of_login), "a wrong password leaves one line of the browser itself: {told:?}");
    let password = crate::data_auth::USERS.iter().find(|(name, _)| *name == "reader").unwrap().1;
    browser.run(&login("reader", password));
    browser.until_says("Hidden: users, roles and permissions");
    assert!(!browser.text().contains("a login of reader"), "refusals are for root");
    browser.click("button", "Log out");
    browser.until_says("Auth is on");
    browser.run(&login("root", "rpw"));
    browser.until_says("a login of reader from 127.0.0.1 was refused");
    browser.click("button", "Log out");
    browser.until_says("Auth is on");
    browser.run(&login("reader", password));
    browser.until_says("Hidden: users, roles and permissions");
    manage(&member, &["user", "delete", "reader", "--user", "root:rpw"]);
    browser.until_says("Auth is on");
}

#[test]
fn the_page_and_its_files_are_served_with_a_strict_policy() {
    let member = Plan::single().start_ready();
    let rest = Rest::of(&member);
    let page = rest.get("/");
    let text = String::from_utf8(page.bytes.clone()).unwrap();
    assert!(page.status == 200 && text.contains(r#"<body data-console="overview">"#), "{text}");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let script = text.split("src=\"").nth(1).unwrap().split('"').next().unwrap();
    let script = rest.get(script);
    assert_eq!(script.status, 200);
    assert!(script.header("cache-control").unwrap().contains("immutable"));
    assert_eq!(rest.get("/console/x/no-such.js").status, 404);
    assert_eq!(rest.get("/api-docs").status, 200);
}
