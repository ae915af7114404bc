//! Values are changed on the pages of keys and data, but never one that the page has not shown.

use super::browser::Browser;
use super::{address, open};
use crate::process::{Plan, until};
use crate::rest::Rest;
use serde_json::{Value, json};

/// Fills the dialog that is open, and sends it.
fn answer(browser: &Browser, fields: &[(&str, &str)]) {
    browser.until("a dialog asks", "return Boolean(document.querySelector('dialog[open] form'))");
    for (name, value) in fields {
        let field = format!("document.querySelector('dialog[open] form').elements[{}]", json!(name));
        browser.run(&format!("{field}.value = {}", json!(value)));
    }
    browser.run("document.querySelector('dialog[open] form').requestSubmit()");
}

/// Runs a line in the command box.
fn command(browser: &Browser, line: &str) {
    browser.run("dispatchEvent(new KeyboardEvent('keydown', { key: 'k', ctrlKey: true }))");
    browser.until("the command box is open", "return Boolean(document.querySelector('#command'))");
    browser.run(&format!(
        "const box = document.querySelector('#command'); box.value = {}; box.dispatchEvent(new Event('input'))",
        json!(line)
    ));
    browser.until(
        "the line can be run",
        &format!(
            "return document.querySelector('#choices li')?.textContent.startsWith({})",
            json!(format!("Run: {line}"))
        ),
    );
    let enter =
        "document.querySelector('#command').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }))";
    browser.run(enter);
}

fn close_commands(browser: &Browser) {
    browser.run("document.querySelector('dialog.commands').dispatchEvent(new Event('cancel'))");
}

fn refused(browser: &Browser) {
    browser.until("the page says why", "return Boolean(document.querySelector('.toast.bad'))");
    browser.run("document.querySelectorAll('.toast').forEach(toast => toast.remove())");
}

fn value_of(rest: Rest, key: &str) -> Value {
    rest.get(&format!("/v1/data/{key}")).json()["value"].clone()
}

#[test]
fn a_data_key_that_appeared_meanwhile_is_not_overwritten() {
    let Some(browser) = Browser::start() else { return };
    let member = Plan::single().start_ready();
    let rest = Rest::of(&member);
    rest.wait_for_ring(1);
    open(&browser, &address(rest), "data/default/fresh");
    browser.until("the key is absent", "return Boolean(document.querySelector('#panel-value .trouble'))");
    assert_eq!(rest.put("/v1/data/fresh", r#"{"value":"theirs"}"#).status, 200);
    browser.click("#panel-value button", "Edit");
    answer(&browser, &[("value", "mine")]);
    refused(&browser);
    assert_eq!(value_of(rest, "fresh"), "theirs");

    browser.until_says("theirs");
    browser.click("#panel-value button", "Edit");
    answer(&browser, &[("value", "mine")]);
    until("what was shown is written over", || (value_of(rest, "fresh") == "mine").then_some(()));

    command(&browser, "data put default fresh new words");
    browser.until_says("It holds:");
    browser.click("dialog[open] button", "Cancel");
    browser.until_says("not done");
    assert_eq!(value_of(rest, "fresh"), "mine");
    close_commands(&browser);
    command(&browser, "data put default fresh new words");
    browser.until_says("It holds:");
    assert_eq!(rest.put("/v1/data/fresh", r#"{"value":"later"}"#).status, 200);
    answer(&browser, &[]);
    browser.until(
        "it is refused",
        "return /conflict|changed|clock/i.test(document.querySelector('.command-output').textContent)",
    );
    assert_eq!(value_of(rest, "fresh"), "later");
    close_commands(&browser);
    command(&browser, "data put default quite-new 7");
    until("a new key needs no question", || (value_of(rest, "quite-new") == 7).then_some(()));
}

#[test]
fn collections_are_shown_page_by_page_and_changed_by_their_operations() {
    let Some(browser) = Browser::start() else { return };
    let member = Plan::single().start_ready();
    let rest = Rest::of(&member);
    rest.wait_for_ring(1);
    let names: Vec<String> = (0..60).map(|nth| format!("e{nth:03}")).collect();
    let done = |path: &str, body: Value| {
        until("the operation is done", || (rest.post(path, &body.to_string()).status == 200).then_some(()));
    };
    done("/v1/crdt/bigset:tags/add", json!({ "elements": names }));
    done("/v1/crdt/map:profile/set", json!({ "fields": { "name": "Ann", "visits": 2 } }));
    done("/v1/crdt/sorted_set:scores/set", json!({ "scores": { "ann": "12.5", "bob": 7 } }));
    done("/v1/crdt/list:jobs/push", json!({ "values": ["first job", "second job"] }));
    done("/v1/crdt/flag:beta/enable", json!({}));
    done("/v1/crdt/hyperloglog:visitors/observe", json!({ "elements": ["a", "b", "c"] }));
    let place = address(rest);

    open(&browser, &place, "data/default/tags");
    browser.until_says("e049");
    assert!(!browser.text().contains("e055"), "{}", browser.text());
    browser.click("#panel-value button", "Next");
    browser.until_says("e055");
    browser.click("#panel-value button", "Add element");
    answer(&browser, &[("element", "zz-new")]);
    browser.until_says("zz-new");
    browser.picture("bigset");

    for (key, text) in [("profile", "Ann"), ("scores", "12.5"), ("jobs", "second job"), ("beta", "on")] {
        open(&browser, &place, &format!("data/default/{key}"));
        browser.until_says(text);
    }
    browser.click("#panel-value button", "Disable");
    browser.until(
        "the flag is off",
        "return document.querySelector('#panel-value .badge:not(.info)')?.textContent === 'off'",
    );
    open(&browser, &place, "data/default/visitors");
    browser.until_says("Different elements, about");
    open(&browser, &place, "data/default/jobs");
    browser.click("#panel-value button", "Pop");
    answer(&browser, &[("end", "first")]);
    browser.until(
        "the first item is gone",
        "return !document.querySelector('#panel-value').textContent.includes('first job')",
    );
    open(&browser, &place, "data/default/profile");
    browser.click("#panel-value button", "Increment field");
    answer(&browser, &[("field", "hits"), ("by", "3")]);
    browser.until_says("hits");
    open(&browser, &place, "data/default/begun");
    browser.click("#panel-value button", "Begin a collection …");
    answer(&browser, &[("type", "sorted_set")]);
    browser.until_says("Set score: begun");
    answer(&browser, &[("member", "eve"), ("score", "3")]);
    browser.until_says("eve");
    assert_eq!(browser.log(), Vec::<String>::new());
}

#[test]
fn a_key_is_watched_and_any_two_of_its_revisions_compared() {
    let Some(browser) = Browser::start() else { return };
    let member = Plan::single().start_ready();
    let rest = Rest::of(&member);
    let put = |key: &str, value: &str| {
        let answer = rest.put(&format!("/v1/coord/key?key={key}"), &json!({ "value": value }).to_string());
        assert_eq!(answer.status, 200, "{}", answer.json());
    };
    put("app/colour", "red wine");
    put("app/colour", "green tea");
    put("app/colour", "blue sea");
    open(&browser, &address(rest), "keys/app%2F/app%2Fcolour");
    browser.until_says("blue sea");
    browser.click("button", "Watch");
    browser.until_says("Nothing has changed since the watch began");
    // Whether the stream has begun is seen by a change that comes through it.
    until("the change is seen", || {
        put("app/colour", "grey stone");
        let seen = browser.run(
            "return document.querySelector('#panel-changes').innerText.includes('app/colour') \
             && document.querySelector('#panel-key .value').textContent === 'grey stone'",
        );
        (seen == true).then_some(())
    });
    put("app/new", "x");
    browser.until(
        "a new key is listed",
        "return document.querySelector('#panel-keys').innerText.includes('new')",
    );
    let oldest = "const [from, to] = document.querySelectorAll('#panel-key form select'); \
                  for (const [select, revision] of [[from, '2'], [to, '4']]) { select.value = revision; select.dispatchEvent(new Event('change')); } \
                  from.form.requestSubmit()";
    browser.run(oldest);
    browser.until_says("at revision 2");
    browser.until_says("at revision 4");
    browser.until_says("red wine");
    browser.picture("revisions");
    assert_eq!(browser.log(), Vec::<String>::new());
}
