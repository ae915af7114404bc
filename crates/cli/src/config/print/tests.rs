use super::*;
use crate::config::gather::{File, Sources, gather};

fn gathered(flags: &[(&str, &str)], file: Option<File>) -> Values {
    let flag =
        |wanted: &str| flags.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned());
    gather(&Sources { flag: &flag, variable: &|_| None, file }).unwrap()
}

#[test]
fn what_is_printed_configures_the_same_member_again() {
    let odd = [("data-dir", "C:\\odd \"dir\"\n"), ("heartbeat-ms", "7"), ("name", "x")];
    let values = gathered(&odd, None);
    let printed = print(&values);
    let again = gathered(&[], Some(File { path: "printed.toml".into(), text: printed.clone() }));
    for id in Id::ALL {
        assert_eq!(again.text(*id), values.text(*id), "{id:?} in\n{printed}");
    }
}

#[test]
fn every_setting_is_shown_with_value_unit_origin_and_meaning() {
    let printed = print(&gathered(&[("heartbeat-ms", "7")], None));
    for id in Id::ALL {
        assert!(printed.contains(&format!("\n{} = ", id.setting().name)), "{id:?}");
        assert!(printed.contains(id.setting().meaning), "{id:?}");
    }
    let expected = "\
# How often the leader sends heartbeats.
# Value: a number of milliseconds from 1 to 10000. Default: 100.
# From --heartbeat-ms. Flag: --heartbeat-ms. Variable: ALTHING_HEARTBEAT_MS.
heartbeat-ms = 7
";
    assert!(printed.contains(expected), "{printed}");
}
