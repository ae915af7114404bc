//! `althing alarm`: lists the alarms that are raised, and ends them.

use super::{Error, Options, Printer, print};
use clap::Subcommand;
use proto::etcdserverpb::alarm_request::AlarmAction;
use proto::etcdserverpb::{AlarmRequest, AlarmResponse};

const LIST_EXAMPLE: &str = "\
Example:
  althing alarm list";
const DISARM_EXAMPLE: &str = "\
Example:
  althing alarm disarm                 when there is space again, say so";

#[derive(Subcommand)]
pub enum Alarm {
    /// Lists all alarms
    #[command(after_help = LIST_EXAMPLE)]
    List(Options),
    /// Ends all alarms
    #[command(after_help = DISARM_EXAMPLE)]
    Disarm(Options),
}

impl Alarm {
    pub async fn run(&self) -> Result<(), Error> {
        let all = AlarmRequest { action: AlarmAction::Get as i32, ..Default::default() };
        match self {
            Alarm::List(options) => {
                let list = options.client()?.alarm(all).await?;
                print(&Printer::new(options).alarms(&list))
            }
            Alarm::Disarm(options) => {
                let client = options.client()?;
                let mut ended = AlarmResponse::default();
                for alarm in client.alarm(all).await?.alarms {
                    let action = AlarmAction::Deactivate as i32;
                    let request = AlarmRequest { action, member_id: alarm.member_id, alarm: alarm.alarm };
                    ended.alarms.extend(client.alarm(request).await?.alarms);
                }
                print(&Printer::new(options).alarms(&ended))
            }
        }
    }
}
