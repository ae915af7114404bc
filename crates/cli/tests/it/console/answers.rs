//! What the console shows at once, of all that there is: the value before its past, the newest conflict first, rights on keys
//! that are no text. And what it does not cost: streams of pages in the background, refusals of what its reader did not ask for.

use super::browser::Browser;
use super::{address, open, settle};
use crate::data_auth::{USERS, turn_on};
use crate::process::{Member, Plan, until};
use crate::regions::world::World;
use crate::rest::Rest;
use serde_json::{Value, json};

fn put(rest: Rest, key: &str, value: &str) {
    let answer = rest.put(&format!("/v1/coord/key?key={key}"), &json!({ "value": value }).to_string());
    assert_eq!(answer.status, 200, "{}", answer.shown());
}

/// Answers to questions about the past of keys stay away from now on.
const WITHHOLD_HISTORY: &str = "const send = window.fetch; window.historyAsked = 0; \
     window.fetch = (path, options) => { \
         if (!String(path).startsWith('/v1/coord/history')) return send(path, options); \
         window.historyAsked += 1; return new Promise(() => {}); }";
/// Such questions are counted from now on.
const COUNT_HISTORY: &str = "const send = window.fetch; window.historyAsked = 0; \
     window.fetch = (path, options) => { \
         if (String(path).startsWith('/v1/coord/history')) window.historyAsked += 1; return send(path, options); }";

#[test]
fn a_value_is_shown_before_its_past_is_read_and_changes_do_not_read_it_again() {
    let Some(browser) = Browser::start() else { return };
    let member = Plan::single().start_ready();
    let rest = Rest::of(&member);
    put(rest, "app/one", "first value");
    open(&browser, &address(rest), "keys/app%2F");
    browser.run(WITHHOLD_HISTORY);
    browser.click("button.name", "one");
    browser.until_says("first value");
    browser.until("the past is asked for, once", "return window.historyAsked === 1");

    browser.run("location.reload()");
    open(&browser, &address(rest), "keys");
    open(&browser, &address(rest), "keys/app%2F");
    browser.until("the key is listed", "return Boolean(document.querySelector('button.name'))");
    browser.run(COUNT_HISTORY);
    browser.click("button.name", "one");
    browser.until_says("created");
    // Whether the watch has begun is seen by a change that comes through it.
    let mut nth = 0;
    until("changes are added to the past", || {
        nth += 1;
        put(rest, "app/one", &format!("value {nth}"));
        let seen = browser.run("return document.querySelectorAll('#past .timeline li').length");
        (seen.as_u64() > Some(3)).then_some(())
    });
    browser.until(
        "the last value is shown",
        &format!("return document.querySelector('#panel-key .value').textContent === 'value {nth}'"),
    );
    assert_eq!(browser.run("return window.historyAsked"), 1);
    assert_eq!(browser.log(), Vec::<String>::new());
}

fn watches(rest: Rest) -> u64 {
    rest.get("/v1/watches").json()["total"].as_u64().unwrap()
}

#[test]
fn a_page_in_the_background_watches_nothing() {
    let Some(browser) = Browser::start() else { return };
    let member = Plan::single().start_ready();
    let rest = Rest::of(&member);
    put(rest, "app/one", "first value");
    open(&browser, &address(rest), "keys/app%2F/app%2Fone");
    browser.click("button", "Watch");
    until("key and folder are watched", || (watches(rest) == 2).then_some(()));
    let hide = |is: bool| {
        browser.run(&format!(
            "Object.defineProperty(document, 'hidden', {{ configurable: true, value: {is} }}); \
             document.dispatchEvent(new Event('visibilitychange'))"
        ));
    };
    hide(true);
    until("nothing is watched", || (watches(rest) == 0).then_some(()));
    put(rest, "app/one", "second value");
    hide(false);
    browser.until_says("second value");
    until("both are watched again", || (watches(rest) == 2).then_some(()));
    assert_eq!(browser.log(), Vec::<String>::new());
}

/// Both regions write the keys while neither hears of the other.
fn contest(world: &World, names: &[String]) {
    world.cables.cut();
    for (nth, region) in world.regions.iter().enumerate() {
        for name in names {
            let body = format!(r#"{{"value":"of region {nth}"}}"#);
            assert_eq!(region.rest(0).put(&format!("/v1/data/{name}"), &body).status, 200);
        }
    }
    world.cables.mend();
    until("the conflicts are known", || {
        let known = world.regions[0].rest(0).get("/v1/conflicts?limit=1000").json();
        let known: Vec<&str> =
            known["conflicts"].as_array()?.iter().filter_map(|one| one["key"].as_str()).collect();
        names.iter().all(|name| known.contains(&name.as_str())).then_some(())
    });
}

#[test]
fn the_newest_conflict_is_the_first_that_is_shown() {
    let Some(browser) = Browser::start() else { return };
    let world = World::start(2, 1);
    contest(&world, &(0..51).map(|nth| format!("early-{nth}")).collect::<Vec<_>>());
    contest(&world, &["late".to_owned()]);
    let rest = world.regions[0].rest(0);
    let listed = |query: &str| rest.get(&format!("/v1/conflicts?limit=1{query}")).json();
    assert!(listed("")["conflicts"][0]["key"].as_str().unwrap().starts_with("early-"), "{}", listed(""));
    let newest = listed("&order=newest");
    assert_eq!((&newest["conflicts"][0]["key"], &newest["order"]), (&json!("late"), &json!("newest")));
    assert_eq!(rest.get("/v1/conflicts?order=none").status, 400);

    open(&browser, &address(rest), "conflicts");
    browser.until(
        "the newest is the first of the first page",
        "return document.querySelector('.conflict')?.innerText.includes('late')",
    );
    browser.click("#panel-conflicts button", "Next");
    browser.until_says("page 2");
    browser.until_says("early-0");
    assert_eq!(browser.log(), Vec::<String>::new());
}

fn call(member: &Member, path: &str, body: Value) {
    let answer = member.http_with("POST", path, &body.to_string());
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
}

fn log_in(browser: &Browser, user: &str) {
    let password = USERS.iter().find(|(name, _)| *name == user).unwrap().1;
    browser.until_says("Auth is on");
    browser.run(&format!(
        "const form = document.querySelector('form.login'); form.elements.user.value = '{user}'; \
         form.elements.password.value = '{password}'; form.requestSubmit()"
    ));
    browser.until("the page is entered", "return !document.querySelector('form.login')");
}

fn may(browser: &Browser, user: &str) -> String {
    let cell = format!(
        "return [...document.querySelectorAll('#panel-users tbody tr')]\
         .find(row => row.firstChild.textContent === '{user}')?.lastChild.textContent ?? ''"
    );
    browser.run(&cell).as_str().unwrap().to_owned()
}

#[test]
fn rights_are_compared_by_bytes_and_typing_asks_for_nothing_that_is_refused() {
    let Some(browser) = Browser::start() else { return };
    let member = Plan::single().start_ready();
    let rest = Rest::of(&member);
    rest.wait_for_ring(1);
    assert_eq!(rest.put("/v1/namespaces/shop", "{}").status, 201);
    call(&member, "/v3/auth/role/add", json!({ "name": "binary" }));
    // From 0xff on.
    let permission = json!({ "permType": "READWRITE", "key": "/w==", "range_end": "AA==" });
    call(&member, "/v3/auth/role/grant", json!({ "name": "binary", "perm": permission }));
    turn_on(&member);
    let grant = ["user", "grant-role", "other", "binary", "--user", "root:rpw"];
    crate::data_auth::manage(&member, &grant);

    browser.goto(&address(rest));
    log_in(&browser, "reader");
    open(&browser, &address(rest), "overview");
    browser.until_says("1 of 1 member healthy");
    settle(&browser);
    drop(browser.log());
    browser.run("dispatchEvent(new KeyboardEvent('keydown', { key: 'k', ctrlKey: true }))");
    for typed in ["a", "ap", "app", "app/x"] {
        browser.run(&format!(
            "const box = document.querySelector('#command'); box.value = '{typed}'; box.dispatchEvent(new Event('input'))"
        ));
        browser.until(
            "what is typed can be opened",
            &format!(
                "return [...document.querySelectorAll('#choices li')].some(choice => choice.firstChild.textContent === '{typed}' \
                 && choice.textContent.includes('open the key'))"
            ),
        );
    }
    assert_eq!(browser.log(), Vec::<String>::new());
    browser.run("document.querySelector('dialog.commands').dispatchEvent(new Event('cancel'))");
    open(&browser, &address(rest), "access");
    browser.click("button", "Log out");

    log_in(&browser, "root");
    open(&browser, &address(rest), "access");
    browser.until_says("base64:/w==");
    settle(&browser);
    let denied = "return [...document.querySelectorAll('#panel-refusals .badge')].filter(kind => kind.textContent === 'denied').length";
    assert_eq!(browser.run(denied), 0, "{}", browser.text());
    browser.run(
        "const box = document.querySelector('#panel-users input[aria-label=Key]'); box.value = 'orders/1'; \
         box.dispatchEvent(new Event('input'))",
    );
    browser.until_says("on orders/1");
    assert_eq!((may(&browser, "root").as_str(), may(&browser, "other").as_str()), ("administers", "nothing"));
    let plane = "const plane = document.querySelector('#panel-users select'); plane.value = 'data'; \
                 plane.dispatchEvent(new Event('change'))";
    browser.run(plane);
    browser.until(
        "the namespace can be given",
        "return Boolean(document.querySelector('#panel-users [aria-label=Namespace]'))",
    );
    browser.run(
        "const space = document.querySelector('#panel-users [aria-label=Namespace]'); space.value = 'shop'; \
         space.dispatchEvent(new Event('input'))",
    );
    until("rights on the data are shown", || (may(&browser, "admin") == "administers").then_some(()));
    assert_eq!(
        [may(&browser, "reader"), may(&browser, "writer"), may(&browser, "other")],
        ["reads", "writes", "nothing"]
    );
    assert_eq!(browser.log(), Vec::<String>::new());
}

#[test]
fn leadership_is_handed_over_from_the_page_of_any_member() {
    let Some(browser) = Browser::start() else { return };
    let members: Vec<Member> = Plan::cluster(3).iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    let leader = until("one leads", || members.iter().position(Member::leads));
    let (follower, other) = ((leader + 1) % 3, (leader + 2) % 3);
    open(&browser, &address(Rest::of(&members[follower])), "maintenance");
    browser.until_says("Space");
    settle(&browser);
    browser.click("button", "Hand leadership over …");
    browser.run(&format!(
        "document.querySelector('dialog[open] select').value = 'm{other}'; \
         document.querySelector('dialog[open] form').requestSubmit()"
    ));
    until("it leads", || members[other].leads().then_some(()));
    browser.until_says(&format!("m{other} leads"));
    drain(&browser, &members, other);
    assert_eq!(browser.log(), Vec::<String>::new());
    let refused = Rest::of(&members[follower]).put("/v1/leader", r#"{"node":"m9"}"#);
    assert_eq!(refused.status, 404, "{}", refused.shown());
}

/// A node that leads hands leadership over before it leaves the ring.
fn drain(browser: &Browser, members: &[Member], leader: usize) {
    let rest = Rest::of(&members[(leader + 1) % members.len()]);
    rest.wait_for_ring(members.len());
    open(browser, &address(rest), "regions");
    let row = format!(
        "[...document.querySelectorAll('#panel-ring tbody tr')].find(row => row.innerText.startsWith('m{leader}'))"
    );
    let drain =
        format!("[...({row})?.querySelectorAll('button') ?? []].find(node => node.textContent === 'Drain')");
    browser.until("the node can be drained", &format!("return Boolean({drain})"));
    browser.run(&format!("{drain}.click()"));
    browser.until_says(&format!("m{leader} leads: it hands leadership to"));
    browser.run("document.querySelector('dialog[open] form').requestSubmit()");
    until("another one leads", || {
        let leads = |idx: &usize| *idx != leader && members[*idx].leads();
        (0..members.len()).find(leads).map(drop)
    });
    // A node without data has left a moment later.
    until("it leaves the ring, or has left", || {
        let ring = rest.get("/v1/ring").json();
        let name = format!("m{leader}");
        let mut nodes = ring["nodes"].as_array()?.iter();
        nodes.all(|node| node["name"] != name.as_str() || node["standing"] == "leaving").then_some(())
    });
    let leaves = format!("const row = {row}; return !row || row.innerText.includes('Stay')");
    browser.until("the page shows that it leaves, or has left", &leaves);
}

#[test]
fn what_cannot_be_read_again_stays_with_its_age() {
    let Some(browser) = Browser::start() else { return };
    let member = Plan::single().start_ready();
    call(&member, "/v3/lease/grant", json!({ "TTL": 3_600, "ID": 4_711 }));
    open(&browser, &address(Rest::of(&member)), "leases");
    browser.until_says("1267");
    browser.run(
        "const send = window.fetch; window.mend = () => { window.fetch = send; }; \
         window.fetch = (path, options) => String(path).startsWith('/v1/leases') ? Promise.reject(new Error('cut')) : send(path, options)",
    );
    let state =
        |wanted: &str| format!("return document.querySelector('#panel-leases').dataset.state === '{wanted}'");
    browser.until("the lists are old", &state("stale"));
    let shown = browser.run("return document.querySelector('#panel-leases').innerText");
    let shown = shown.as_str().unwrap();
    assert!(shown.contains("1267") && shown.contains("last heard") && shown.contains("cut"), "{shown}");
    browser.run("window.mend()");
    browser.until("they are read again", &state("ready"));
    let rates = browser.run(
        "return import(document.querySelector('script[type=module]').src.replace('app.js', 'rates.js')).then(({ Rates }) => { \
             const rates = new Rates(); rates.note('a', 10, 1000); rates.note('a', 30, 3000); \
             const told = [rates.of('a'), rates.left('a', 100)]; rates.note('a', 5, 5000); \
             return [...told, rates.of('a') ?? null]; })",
    );
    assert_eq!(rates, json!([10, 10_000, null]), "a counter that fell begins again");
    assert_eq!(browser.log(), Vec::<String>::new());
}

#[test]
fn what_fills_the_stores_is_two_clicks_away() {
    let Some(browser) = Browser::start() else { return };
    let member = Plan::single().start_ready();
    let rest = Rest::of(&member);
    rest.wait_for_ring(1);
    for nth in 0..30 {
        put(rest, &format!("big/logs/{nth}"), &"x".repeat(2_000));
        put(rest, &format!("small/{nth}"), "y");
    }
    assert_eq!(rest.put("/v1/data/one", r#"{"value":"text"}"#).status, 200);
    let sampled = rest.get("/v1/coord/keys?delimiter=/&sample=20").json();
    assert_eq!(sampled["folders"][0]["prefix"], "big/");
    let about = sampled["folders"][0]["bytes_about"].as_u64().unwrap();
    assert!((60_000..62_000).contains(&about), "{about}");
    open(&browser, &address(rest), "maintenance");
    browser.click("button", "Measure");
    browser.until(
        "the largest folder stands first",
        "return document.querySelector('#panel-sizes tbody tr')?.innerText.startsWith('big/')",
    );
    browser.until_says("Data, one copy");
    browser.click("#panel-sizes button", "big/");
    browser.until_says("below big/");
    browser.until_says("big/logs/");
    assert_eq!(browser.log(), Vec::<String>::new());
}
