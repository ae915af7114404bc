//! What every page looks like: contrast, large and small screens, light and dark, by keyboard alone, and when the
//! cluster is in trouble.

use super::browser::Browser;
use super::{PAGES, address, assert_fits, fill, open, settle};
use crate::process::{Plan, until};
use crate::regions::world::World;
use crate::rest::Rest;
use serde_json::json;

/// Text and borders of fields whose contrast is below what WCAG AA asks for: 4.5:1, of large text and of borders 3:1.
const PALE: &str = r#"
    const channel = value => { value /= 255; return value <= .03928 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4; };
    const light = ([r, g, b]) => .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b);
    const parse = text => { const parts = (text.match(/[\d.]+/g) || []).map(Number); return parts.length < 3 ? null : { rgb: parts.slice(0, 3), alpha: parts[3] ?? 1 }; };
    const ground = node => {
        for (; node; node = node.parentElement) {
            const found = parse(getComputedStyle(node).backgroundColor);
            if (found && found.alpha > .99) return found.rgb;
        }
        return [255, 255, 255];
    };
    const ratio = (one, other) => { const [a, b] = [light(one), light(other)].sort((x, y) => y - x); return (a + .05) / (b + .05); };
    const found = [];
    const say = (node, what, got) => found.push(`${what} ${got.toFixed(2)} of ${node.tagName}.${node.getAttribute('class') || ''} ${(node.textContent || '').trim().slice(0, 30)}`);
    for (const node of document.querySelectorAll('body *')) {
        const style = getComputedStyle(node);
        const box = node.getBoundingClientRect();
        if (!box.width || style.visibility === 'hidden' || node.closest('[disabled],.skeleton,.skip')) continue;
        const hasText = [...node.childNodes].some(child => child.nodeType === Node.TEXT_NODE && child.data.trim());
        if (hasText) {
            const ink = parse(node.namespaceURI.endsWith('svg') ? style.fill : style.color);
            const size = parseFloat(style.fontSize);
            const isLarge = size >= 24 || size >= 18.66 && Number(style.fontWeight) >= 700;
            const got = node.namespaceURI.endsWith('svg') ? null : ratio(ink.rgb, ground(node));
            if (got !== null && got < (isLarge ? 3 : 4.5)) say(node, 'text', got);
        }
        if (node.matches('input,select,textarea')) {
            const got = ratio(parse(style.borderTopColor).rgb, ground(node.parentElement));
            if (got < 3) say(node, 'border', got);
        }
    }
    return found.slice(0, 5);
"#;

fn assert_readable(browser: &Browser, page: &str) {
    let pale = browser.run(PALE);
    assert_eq!(pale, json!([]), "{page}");
}

#[test]
fn every_page_can_be_read_in_light_and_dark_and_on_a_large_screen() {
    let Some(browser) = Browser::start() else { return };
    let world = World::start(2, 3);
    fill(&world);
    let place = address(world.regions[0].rest(0));
    for (page, _) in PAGES {
        for scheme in ["light", "dark"] {
            browser.set_scheme(scheme);
            open(&browser, &place, page);
            settle(&browser);
            assert_readable(&browser, &format!("{page} in {scheme}"));
            browser.set_size(3840, 2160);
            settle(&browser);
            assert_fits(&browser, page);
            browser.set_size(1200, 760);
            if scheme == "dark" {
                browser.picture(&format!("{page}-dark"));
            }
        }
    }
    assert_eq!(browser.log(), Vec::<String>::new());
}

#[test]
fn a_region_that_is_cut_off_is_seen_and_so_is_its_return() {
    let Some(browser) = Browser::start() else { return };
    let world = World::start(2, 1);
    open(&browser, &address(world.regions[0].rest(0)), "regions");
    browser.until("the region is healthy", "return Boolean(document.querySelector('.wire:not(.bad)'))");
    world.cables.cut();
    browser.until("the cut is seen", "return Boolean(document.querySelector('.wire.bad'))");
    browser.until_says("silent");
    browser.picture("region-cut");
    world.cables.mend();
    browser.until("the return is seen", "return Boolean(document.querySelector('.wire:not(.bad)'))");
    assert_eq!(browser.log(), Vec::<String>::new());
}

#[test]
fn a_full_store_is_seen_with_what_to_do_and_is_defragmented_from_the_page() {
    let Some(browser) = Browser::start() else { return };
    let member = Plan::single().with(&["--quota-bytes", "300000"]).start_ready();
    let rest = Rest::of(&member);
    let value = json!({ "value": "x".repeat(20_000) }).to_string();
    let mut nth = 0;
    until("the quota is reached", || {
        nth += 1;
        (rest.put(&format!("/v1/coord/key?key=full-{nth}"), &value).status != 200).then_some(())
    });
    let place = address(rest);
    open(&browser, &place, "overview");
    browser.until_says("1 alarm");
    browser.until_says("the store has reached its quota");
    browser.picture("full");
    open(&browser, &place, "maintenance");
    browser.until_says("300 kB");
    browser.click("button", "Defragment …");
    browser.click("dialog[open] button", "Defragment");
    browser.until_says("given back");
    browser.picture("defragmented");
    assert_eq!(browser.log(), Vec::<String>::new());
    let quota = rest.put("/v1/quota", r#"{"bytes":90000000}"#);
    assert_eq!((quota.status, &quota.json()["quota_bytes"]), (200, &90_000_000.into()));
    assert_eq!(rest.get("/v1/quota").json()["quota_bytes"], 90_000_000);
    let snapshot = rest.get("/v1/snapshot");
    assert!(snapshot.status == 200 && snapshot.bytes.len() > 200_000, "{} bytes", snapshot.bytes.len());
}

#[test]
fn the_console_is_used_by_keyboard_alone() {
    let Some(browser) = Browser::start() else { return };
    let member = Plan::single().start_ready();
    open(&browser, &address(Rest::of(&member)), "overview");
    browser.until_says("1 of 1 member healthy");
    settle(&browser);
    let focused = "const node = document.activeElement; const style = getComputedStyle(node); \
                   return [node.textContent.trim() || node.getAttribute('aria-label') || node.tagName, \
                   style.outlineStyle !== 'none' || node.matches('.skip')]";
    let mut walked = Vec::new();
    for _ in 0..40 {
        browser.press("Tab", 9);
        let seen = browser.run(focused);
        assert_eq!(seen[1], true, "the focus is seen on {}", seen[0]);
        walked.push(seen[0].as_str().unwrap().to_owned());
        if walked.last().is_some_and(|name| name == "Metrics") {
            break;
        }
    }
    assert_eq!(walked[0], "Skip to the page");
    for name in ["Overview", "Keys", "Data", "Locks and elections", "Conflicts", "Access", "Metrics"] {
        assert!(walked.iter().any(|seen| seen == name), "{name} is not in {walked:?}");
    }
    browser.run("document.activeElement.click()");
    browser.until("the page is open", "return document.body.dataset.console === 'metrics'");
    browser.run("document.activeElement.blur()");
    browser.press("/", 191);
    browser.until("the command box has the focus", "return document.activeElement.id === 'command'");
    browser.press("ArrowDown", 40);
    browser.until(
        "the second choice is chosen",
        "return document.querySelector('#choice-1')?.ariaSelected === 'true'",
    );
    browser.press("Escape", 27);
    browser.until("the box is closed", "return !document.querySelector('#command')");
    assert_eq!(browser.log(), Vec::<String>::new());
}
