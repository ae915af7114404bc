//! `althing get`: reads a key or a range of keys.

use super::{Error, Options, Printer, RangeForm, print, range_of};
use crate::client::Format;
use crate::output::SimpleParts;
use clap::{Args, ValueEnum};
use proto::etcdserverpb::RangeRequest;
use proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use std::ffi::OsString;

const EXAMPLE: &str = "\
Example:
  althing get services/ --prefix --keys-only     every key that begins with services/
  althing get greeting --rev 7                   what it was at revision 7
  althing get jobs/ --prefix --min-mod-rev 1000  all that changed since revision 1000";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Get {
    key: OsString,
    /// Reads up to this key, which is not part of the range
    range_end: Option<OsString>,
    /// Read all keys that begin with the key
    #[arg(long)]
    prefix: bool,
    /// Read the key and all that come after it
    #[arg(long)]
    from_key: bool,
    /// Read as of this revision
    #[arg(long, default_value_t = 0, hide_default_value = true, allow_negative_numbers = true)]
    rev: i64,
    /// Read so many keys at most; 0 sets no limit
    #[arg(long, default_value_t = 0, hide_default_value = true, allow_negative_numbers = true)]
    limit: i64,
    #[arg(long, value_enum, ignore_case = true, help = "Sort up or down")]
    order: Option<Order>,
    #[arg(long, value_enum, ignore_case = true, help = "Sort by this")]
    sort_by: Option<SortBy>,
    /// Leave out the values
    #[arg(long)]
    keys_only: bool,
    /// Print only how many there are
    #[arg(long)]
    count_only: bool,
    /// Leave out the keys, in the simple format
    #[arg(long)]
    print_value_only: bool,
    /// Linearizable, or serializable: from one member, perhaps old
    #[arg(long, value_enum, default_value = "l")]
    consistency: Consistency,
    #[command(flatten)]
    revisions: Revisions,
    /// Have the answer sent in pieces, so that members need less memory for a large one
    #[arg(long)]
    stream: bool,
}

// Not a doc comment, which would become that of the command. Zero sets no bound.
#[derive(Args)]
struct Revisions {
    /// Leave out keys that were changed last before this revision
    #[arg(
        long,
        value_name = "REV",
        default_value_t = 0,
        hide_default_value = true,
        allow_negative_numbers = true
    )]
    min_mod_rev: i64,
    /// Leave out keys that were changed last after this revision
    #[arg(
        long,
        value_name = "REV",
        default_value_t = 0,
        hide_default_value = true,
        allow_negative_numbers = true
    )]
    max_mod_rev: i64,
    /// Leave out keys that were made before this revision
    #[arg(
        long,
        value_name = "REV",
        default_value_t = 0,
        hide_default_value = true,
        allow_negative_numbers = true
    )]
    min_create_rev: i64,
    /// Leave out keys that were made after this revision
    #[arg(
        long,
        value_name = "REV",
        default_value_t = 0,
        hide_default_value = true,
        allow_negative_numbers = true
    )]
    max_create_rev: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    Ascend,
    Descend,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SortBy {
    Create,
    Key,
    Modify,
    Value,
    Version,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Consistency {
    L,
    S,
}

impl Get {
    pub async fn run(&self, options: &Options) -> Result<(), Error> {
        let mut printer = Printer::new(options);
        printer.shown = self.shown(printer.format())?;
        let (client, request) = (options.client()?, self.request()?);
        let response =
            if self.stream { client.range_stream(request).await? } else { client.range(request).await? };
        print(&printer.range(&response))
    }

    pub fn request(&self) -> Result<RangeRequest, Error> {
        let extent = RangeForm::of(self.prefix, self.from_key)?;
        let (key, range_end) = range_of(&self.key, self.range_end.as_ref(), extent)?;
        let target = match self.sort_by {
            None | Some(SortBy::Key) => SortTarget::Key,
            Some(SortBy::Create) => SortTarget::Create,
            Some(SortBy::Modify) => SortTarget::Mod,
            Some(SortBy::Value) => SortTarget::Value,
            Some(SortBy::Version) => SortTarget::Version,
        };
        let order = match self.order {
            // Keys ascend by themselves.
            Some(Order::Ascend) if target != SortTarget::Key => SortOrder::Ascend,
            Some(Order::Descend) => SortOrder::Descend,
            _ => SortOrder::None,
        };
        Ok(RangeRequest {
            key: key.into(),
            range_end: range_end.into(),
            limit: self.limit,
            revision: self.rev,
            sort_order: order as i32,
            sort_target: target as i32,
            serializable: self.consistency == Consistency::S,
            keys_only: self.keys_only,
            count_only: self.count_only,
            min_mod_revision: self.revisions.min_mod_rev,
            max_mod_revision: self.revisions.max_mod_rev,
            min_create_revision: self.revisions.min_create_rev,
            max_create_revision: self.revisions.max_create_rev,
        })
    }

    fn shown(&self, format: Format) -> Result<SimpleParts, Error> {
        match (self.print_value_only, self.count_only) {
            (true, _) if format != Format::Simple => {
                Err(Error::Usage("print-value-only is only for `--write-out=simple`".to_owned()))
            }
            (true, true) => Err(Error::Usage("a count has no values to print".to_owned())),
            (true, false) => Ok(SimpleParts::Value),
            (false, true) => Ok(SimpleParts::Count),
            (false, false) => Ok(SimpleParts::KeyAndValue),
        }
    }
}
