//! `althing member`: lists the members of the cluster, and changes them.
//! A replacement at another address is one step (joint consensus). At the same address the old one must go first: it is a
//! removal and an addition, and in between the cluster is one member smaller, never less safe.

use super::{Client, Error, Options, Printer, each_endpoint, parse_member, print};
use crate::output::token_line;
use clap::{Args, Subcommand};
use proto::althing::store::v1::{AcceptLossRequest, CreateJoinTokenRequest, ReplaceMemberRequest};
use proto::etcdserverpb::{MemberAddRequest, MemberUpdateRequest};

const LIST_EXAMPLE: &str = "\
Example:
  althing member list -w table";
const ADD_EXAMPLE: &str = "\
Example:
  althing member add d --peer-urls http://10.0.0.4:2380";
const ID_EXAMPLE: &str = "\
Example:
  althing member list                        tells the ids
  althing member remove 8e9e05c52164694d";
const REPLACE_EXAMPLE: &str = "\
Example:
  althing member replace 8e9e05c52164694d    its disk is lost; start it again, empty, with --join
  althing member replace 8e9e05c52164694d --peer-urls http://10.0.0.4:2380   another machine, in one step";
const ACCEPT_LOSS_EXAMPLE: &str = "\
Writes that only the lost member had are lost with it. `althing endpoint status` says who waits for whom.

Example:
  althing member accept-loss 8e9e05c52164694d --endpoints 10.0.0.1:2379,10.0.0.2:2379";
const UPDATE_EXAMPLE: &str = "\
Example:
  althing member update 8e9e05c52164694d --peer-urls http://10.0.0.5:2380";

#[derive(Subcommand)]
pub enum Member {
    /// Lists all members
    #[command(after_help = LIST_EXAMPLE)]
    List(Options),
    /// Adds a member
    #[command(after_help = ADD_EXAMPLE)]
    Add {
        /// The name of the new member
        name: String,
        #[command(flatten)]
        peer: Peer,
        /// Without a vote, until it is promoted
        #[arg(long)]
        learner: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Removes a member
    #[command(after_help = ID_EXAMPLE)]
    Remove(Named),
    /// Changes where a member listens for its peers
    #[command(after_help = UPDATE_EXAMPLE)]
    Update {
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        peer: Peer,
    },
    /// Replaces a member whose disk is lost by a new, empty one
    #[command(after_help = REPLACE_EXAMPLE)]
    Replace {
        #[command(flatten)]
        named: Named,
        /// Where the new one listens for its peers; by default the address of the old one
        #[arg(long, value_name = "URL,...", value_delimiter = ',')]
        peer_urls: Vec<String>,
    },
    /// Makes members that wait for a lost one continue without it
    #[command(after_help = ACCEPT_LOSS_EXAMPLE)]
    AcceptLoss(Named),
    /// Gives a learner its vote
    #[command(after_help = ID_EXAMPLE)]
    Promote(Named),
}

#[derive(Args)]
pub struct Named {
    /// The id of the member, hexadecimal
    #[arg(value_parser = parse_member)]
    id: u64,
    #[command(flatten)]
    options: Options,
}

#[derive(Args)]
pub struct Peer {
    /// Where it listens for its peers
    #[arg(long, value_name = "URL,...", value_delimiter = ',', required = true)]
    peer_urls: Vec<String>,
}

impl Member {
    pub async fn run(&self) -> Result<(), Error> {
        match self {
            Member::List(options) => {
                let list = options.client()?.members().await?;
                print(&Printer::new(options).members(&list))
            }
            Member::Add { name, peer, learner, options } => {
                let request = MemberAddRequest { peer_ur_ls: peer.peer_urls.clone(), is_learner: *learner };
                let client = options.client()?;
                let token = join_token(&client, &request.peer_ur_ls).await;
                let added = client.add_member(request).await?;
                print(&Printer::new(options).member_added(name, &added, token.as_deref()))
            }
            Member::Remove(Named { id, options }) => {
                let removed = options.client()?.remove_member(*id).await?;
                let printer = Printer::new(options);
                print(&printer.member_changed(*id, "removed from", removed.header, &removed.members))
            }
            Member::Update { named: Named { id, options }, peer } => {
                let request = MemberUpdateRequest { id: *id, peer_ur_ls: peer.peer_urls.clone() };
                let updated = options.client()?.update_member(request).await?;
                let printer = Printer::new(options);
                print(&printer.member_changed(*id, "updated in", updated.header, &updated.members))
            }
            Member::Replace { named: Named { id, options }, peer_urls } => {
                let client = options.client()?;
                let listed = client.members().await?.members;
                let old = listed.into_iter().find(|member| member.id == *id);
                let Some(old) = old else {
                    return Err(Error::Usage(format!(
                        "no member has the id {id:x}; `althing member list` tells them"
                    )));
                };
                let moves =
                    !peer_urls.is_empty() && !peer_urls.iter().any(|url| old.peer_ur_ls.contains(url));
                if moves && !old.is_learner {
                    let request = ReplaceMemberRequest { id: *id, peer_urls: peer_urls.clone() };
                    let token = join_token(&client, peer_urls).await;
                    let new = client.replace_member(request).await?.id;
                    let token = token.map(|token| token_line(&token)).unwrap_or_default();
                    return print(format!("Member {id:x} replaced by {new:x}\n{token}").as_bytes());
                }
                let peer_ur_ls = if peer_urls.is_empty() { old.peer_ur_ls } else { peer_urls.clone() };
                let token = join_token(&client, &peer_ur_ls).await;
                client.remove_member(*id).await?;
                let request = MemberAddRequest { peer_ur_ls, is_learner: old.is_learner };
                let added = client.add_member(request).await?;
                print(&Printer::new(options).member_added(&old.name, &added, token.as_deref()))
            }
            Member::AcceptLoss(Named { id, options }) => accept_loss(*id, options).await,
            Member::Promote(Named { id, options }) => {
                let promoted = options.client()?.promote_member(*id).await?;
                let printer = Printer::new(options);
                print(&printer.member_changed(*id, "promoted in", promoted.header, &promoted.members))
            }
        }
    }
}

/// The join token of the new member; made before the change, after which a small cluster may have no quorum until the new
/// member runs. An older cluster gives none and needs none.
async fn join_token(client: &Client, peer_urls: &[String]) -> Option<String> {
    let peer_url = if let [url] = peer_urls { url.clone() } else { String::new() };
    let answer = client.create_join_token(CreateJoinTokenRequest { ttl_seconds: 0, peer_url }).await;
    answer.ok().map(|answer| answer.token)
}

/// Each endpoint is called by itself: a member that waits has no leader to forward it.
async fn accept_loss(id: u64, options: &Options) -> Result<(), Error> {
    let mut trouble = None;
    let mut told = String::new();
    for client in each_endpoint(options, false).await? {
        let endpoint = client.endpoint().to_owned();
        match client.accept_loss(AcceptLossRequest { id }).await {
            Ok(_) => told += &format!("{endpoint} goes on without member {id:x}\n"),
            Err(error) => trouble = Some(Error::from(error)),
        }
    }
    match trouble {
        Some(error) if told.is_empty() => Err(error),
        _ => print(told.as_bytes()),
    }
}
